// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A call that fails while it moves, and the end of its communicator.
//
// Models: suspect, establish, settle and clear_hook of core/comm/failure.h; stop_everything,
// finished, finish and the destructor in core/comm/communicator.cc; progress, how it fails, and
// abort of core/transport/net_port.h; rounds and remove in core/transport/progress_engine.cc.
//
// A worker sends two steps over a net: the first is lent from the caller's buffer and awaited, the
// second goes on after the call has ended. Meanwhile, or not at all: the user aborts from another
// thread, the failure ring tells of a dead rank, the net breaks, the peer gives up. The caller
// synchronizes, or does not, and destroys the communicator.
//
// Holds:
//  - once the abort flag is up the worker begins one more sleep at most, and every thread ends;
//  - whoever asks gets one and the same cause, and that is the first one; a suspicion only where
//    nothing was established before it was promoted;
//  - the caller's buffer is not read once the call has answered;
//  - the port is not touched once it is freed, and the engine rests once it was aborted.
//
// Planted mistakes, and what they are found by:
// PLANT_SLEEPS_WITHOUT_LIMIT: a deadlock
// PLANT_LOOKS_AT_FLAG_ONCE: an assertion
// PLANT_LAST_CAUSE_WINS: an assertion
// PLANT_SUSPICION_BEATS_CAUSE: an assertion
// PLANT_ANSWERS_BEFORE_HOOK: an assertion
// PLANT_ABORT_PASSES_LOCK: an assertion
// PLANT_ABORT_KEEPS_STEPS: an assertion
// PLANT_CLEARS_RUNNING_HOOK: an assertion
// PLANT_FREES_UNDER_WORKER: an assertion
// PLANT_REMOVES_DURING_ROUND: an assertion

// Causes. Those from 1 on are established; the last one is a suspicion's.
#define kNone 0
#define kUser 1
#define kRing 2
#define kEvidence 3

// Failure; its mutex is held within d_step blocks alone.
bool abort_flag;
byte cause, suspicion;
bool hook_set = true;
bool hook_running;

// The port.
#define kSteps 2
byte let, moved;  // steps that the other side let through; those of them that were reported
bool locked;     // NetPort::mutex_
bool broken;     // nothing more will move
bool net_broke;  // as its next poll tells
bool on_duty;

// The engine.
bool engine_locked;  // its list of ports
bool listed = true;
bool wake_up, stop;

// The call.
bool call_ended, call_failed;
byte under_way = 1;  // Communicator::under_way_
bool peer_gave_up;   // the error word

// What is only known to the checker.
byte first_cause;
bool buffer_back;  // the caller's buffer is the caller's again
bool freed;        // the port
bool aborted;      // NetPort::abort has returned
bool user_done;
byte late_sleeps, late_rounds;

#define BUSY (moved < kSteps && !broken)
#define TOUCH assert(!freed)

inline suspect() {
  d_step {
    abort_flag = true;
    if
    :: cause == kNone && suspicion == kNone -> suspicion = kEvidence
    :: else
    fi
  }
}

// Communicator::stop_everything, without the failure's mutex; then that again.
inline run_hook() {
  // NetPort::abort
#ifdef PLANT_ABORT_KEEPS_STEPS
  TOUCH;
#else
  d_step { TOUCH; broken = true };
#endif
#ifdef PLANT_ABORT_PASSES_LOCK
  d_step { aborted = true; hook_running = false }
#else
  d_step { !locked -> TOUCH; aborted = true; hook_running = false }
#endif
}

inline establish(why) {
  d_step {
    abort_flag = true;
    if
#ifdef PLANT_LAST_CAUSE_WINS
    :: true ->
#else
    :: cause == kNone ->
#endif
       cause = why;
       first_cause = (first_cause == kNone -> why : first_cause);
       due = hook_set;
       hook_running = hook_running || due
    :: else -> due = false
    fi
  };
  if
  :: due -> run_hook()
  :: else
  fi
}

inline settle(answer) {
  if
#ifdef PLANT_SUSPICION_BEATS_CAUSE
  :: d_step { suspicion != kNone -> due = false; answer = suspicion }
#endif
  :: d_step { cause != kNone || suspicion == kNone -> due = false; answer = cause }
  :: d_step {
      cause == kNone && suspicion != kNone ->  // kPatience is over
      cause = suspicion;
      first_cause = cause;
      answer = cause;
      due = hook_set;
      hook_running = due
    }
  fi;
  if
  :: due -> run_hook()
  :: else
  fi;
#ifndef PLANT_ANSWERS_BEFORE_HOOK
  !hook_running;
#endif
  assert(answer == first_cause || answer == kNone)
}

// NetPort::progress_locked and report_failure. Any poll may read what is lent and not yet moved.
inline progress() {
  d_step { !locked -> TOUCH; locked = true; any = false; fails = false };
  if
  :: broken || moved == kSteps
  :: else ->
     assert(!buffer_back || moved > 0);
     d_step {
       if
       :: net_broke && !broken -> broken = true; fails = true
       :: else -> any = moved < let; moved = let
       fi
     }
  fi;
  d_step { TOUCH; locked = false };
  if
  :: fails -> suspect()
  :: else
  fi
}

inline hand_over() {
  d_step {
    TOUCH;
    if
    :: BUSY && !on_duty -> on_duty = true; wake_up = true
    :: else
    fi
  }
}

active proctype worker() {
  bool any, fails;
  // Waiter::wait for the first step, with Communicator::drive.
#ifdef PLANT_LOOKS_AT_FLAG_ONCE
  bool leaves = abort_flag;
#define LEAVE (leaves || peer_gave_up)
#else
#define LEAVE (abort_flag || peer_gave_up)
#endif
  do
  :: moved >= 1 -> break
  :: moved < 1 ->
     if
     :: LEAVE -> call_failed = true; break
     :: else
     fi;
     progress();
     if
     :: any
     :: else ->
        hand_over();
        d_step {  // sleeps
          late_sleeps = late_sleeps + (abort_flag -> 1 : 0);
          assert(late_sleeps <= 1)
        };
#ifdef PLANT_SLEEPS_WITHOUT_LIMIT
        moved >= 1
#else
        moved >= 1 || abort_flag || peer_gave_up || moved < let || net_broke  // 50 ms are over
#endif
     fi
  od;
  // Communicator::finished
  if
  :: !call_failed && BUSY -> progress(); hand_over()
  :: !call_failed && !BUSY
  :: call_failed && !abort_flag -> suspect()  // explain_outcome: the peer gave up
  :: call_failed && abort_flag
  fi;
  TOUCH;
  d_step { under_way--; call_ended = true }
}

active proctype engine() {
  bool any, fails, on_duty_now;
  do
  :: stop -> break
  :: else ->
     // A round.
#ifndef PLANT_REMOVES_DURING_ROUND
     d_step { !engine_locked -> engine_locked = true };
#endif
     if
     :: d_step {
          listed && on_duty ->
          late_rounds = late_rounds + (aborted -> 1 : 0);
          assert(late_rounds <= 1)
        };
        progress();
        d_step { TOUCH; on_duty = BUSY; on_duty_now = BUSY; engine_locked = false }
     :: d_step {
          !(listed && on_duty) ->
          assert(!listed || !freed);
          on_duty_now = false;
          engine_locked = false
        }
     fi;
     // Sleeps; on duty for 50 ms at most.
     d_step {
       wake_up || stop || (on_duty_now && (moved < let || net_broke || aborted)) ->
       wake_up = false;
       on_duty_now = false
     }
  od
}

active proctype other_side() {
end:
  do
  :: let < kSteps -> let++
  :: !peer_gave_up && let < kSteps -> peer_gave_up = true; break
  :: !net_broke && let < kSteps -> net_broke = true; break
  :: cause != kNone && let < kSteps -> break  // is silent
  od
}

active proctype user() {
  bool due;
  if
  :: establish(kUser)
  :: true
  fi;
  user_done = true
}

// The reactor's thread lives longer than the communicator.
active proctype failure_ring() {
  bool due;
end:
  establish(kRing)
}

active proctype caller() {
  bool any, fails, due;
  byte answer, before;
  // Stream::synchronize, or not.
  if
  :: call_ended ->
     if
     :: call_failed -> settle(answer); before = answer; assert(answer != kNone)
     :: else
     fi;
     buffer_back = true
  :: true
  fi;
  user_done;
  // Communicator::finish
#ifndef PLANT_FREES_UNDER_WORKER
  under_way == 0;
#endif
  do
  :: BUSY && !abort_flag -> progress()
  :: else -> break
  od;
  settle(answer);
  assert(before == kNone || answer == before);
  // Failure::clear_hook
#ifdef PLANT_CLEARS_RUNNING_HOOK
  hook_set = false;
#else
  d_step { !hook_running -> hook_set = false };
#endif
  // ProgressEngine::remove, and the port goes.
#ifndef PLANT_REMOVES_DURING_ROUND
  d_step { !engine_locked -> engine_locked = true };
#endif
  d_step { listed = false; on_duty = false; engine_locked = false };
  d_step { freed = true; stop = true }
}
