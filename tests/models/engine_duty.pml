// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Who moves messages: waiting workers, and the progress engine when a port is on duty.
//
// Models: round, look_after, prepare_sleep, loop, take_over and look_in in
// core/transport/progress_engine.cc; enqueue, progress, try_progress, keep and busy of
// core/transport/net_port.h; drive and leave in core/transport/net_ports.cc, and how a call's end
// (Communicator::finished) leaves.
//
// Holds, for three calls of two steps each, which their worker waits for or leaves under way:
//  - every step is moved, though its worker may sleep or be gone. No sleep has a time limit here
//    until all is moved (in the code those of the worker and of the engine on duty have, of 50 ms);
//  - then the engine rests.
//
// A step is under way from its call on; the kernel fills it, the port posts it to the net, the
// other side lets it through, the port sees that and calls it moved. The flag `on_duty` is stored
// through a buffer where that is not sequentially consistent. A call that leaves may keep what is
// filled; when the time for that ends is the engine's choice.
//
// Planted mistakes, and what they are found by:
// PLANT_NO_SECOND_LOOK: a deadlock
// PLANT_DUTY_WITHOUT_SEQ_CST: a deadlock
// PLANT_CLEARS_NEWS_LATE: a deadlock
// PLANT_SLEEPS_IN_SPITE_OF_NEWS: a deadlock
// PLANT_TELLS_FIRST: a deadlock
// PLANT_SKIPS_LOOK_BEFORE_SLEEP: a deadlock
// PLANT_LEAVES_WITHOUT_LOOK: a deadlock
// PLANT_LEAVES_WITHOUT_HAND_OVER: a deadlock
// PLANT_SLEEPS_WITHOUT_HAND_OVER: a deadlock
// PLANT_STAYS_ON_DUTY: an assertion
// PLANT_KEEPS_WITHOUT_LOOK_IN: a deadlock
// PLANT_KEEPS_BY_DUTY: a deadlock
// PLANT_FORGETS_AFTER_LOOK: a deadlock

#define kCalls 3
#ifndef STEPS
#define STEPS 2
#endif
#define kStepsOfCall STEPS
#define kSteps (kCalls * kStepsOfCall)

byte target, filled, posted, let, moved;  // steps so far
bool locked;                              // NetPort::mutex_
bool on_duty;
bool off_duty_stored;  // a store of false that is still in a buffer
bool keeps;            // NetPort::keeps_until_ is not 0
bool looked_after;
bool news, sleeps;     // ProgressEngine::State::attention
bool wake_up;          // the eventfd is readable
bool worker_gone;
bool late;  // so late that every sleep with a limit ends
byte late_rounds;

#define BUSY (moved < target)

#ifdef PLANT_DUTY_WITHOUT_SEQ_CST
active proctype stores() {
end:
  do
  :: atomic { off_duty_stored -> off_duty_stored = false; on_duty = false }
  od
}
#endif

active proctype other_side() {
end:
  do
  :: let < posted -> let++
  od
}

// NetPort::progress_locked, which leaves the lock too.
inline poll_net() {
  do
  :: moved < let -> moved++; any = true
  :: else -> break
  od
}

inline progress_and_unlock() {
  any = false;
  keeps = false;
  do
  :: posted < filled -> posted++; any = true
  :: else -> break
  od;
  poll_net();
  locked = false
}

inline progress() {
  atomic { !locked -> locked = true };
  progress_and_unlock()
}

inline try_progress() {
  if
  :: atomic { !locked -> locked = true };
     any = false;
     if
     :: keeps -> poll_net()
     :: else
     fi;
     if
     :: any -> locked = false
     :: else -> progress_and_unlock()
     fi
  :: atomic { locked -> any = false }
  fi
}

// ProgressEngine::State::tell
inline tell() {
  atomic { writes = sleeps && !news; news = true };
  if
  :: writes -> wake_up = true
  :: else
  fi
}

// Connections::hand_over, ProgressEngine::take_over.
inline hand_over() {
  if
  :: !BUSY || on_duty
  :: else ->
#ifdef PLANT_TELLS_FIRST
     tell();
#endif
     atomic {
       if
       :: on_duty -> was_on_duty = true
       :: else -> on_duty = true; was_on_duty = false
       fi
     };
#ifndef PLANT_TELLS_FIRST
     if
     :: !was_on_duty -> tell()
     :: else
     fi
#endif
  fi
}

// ProgressEngine::look_in
inline look_in() {
  atomic {
    if
    :: looked_after -> was_on_duty = true
    :: else -> looked_after = true; was_on_duty = false
    fi
  };
  if
  :: !was_on_duty -> tell()
  :: else
  fi
}

// Waiter::wait with Communicator::drive; how the mover wakes who sleeps is in step_fifo.pml.
inline wait_for(threshold) {
  do
  :: moved >= threshold -> break
  :: moved < threshold -> try_progress()
  :: moved < threshold ->  // about to sleep
#ifdef PLANT_SKIPS_LOOK_BEFORE_SLEEP
     try_progress();
#else
     progress();
#endif
     if
     :: any
     :: else ->
#ifndef PLANT_SLEEPS_WITHOUT_HAND_OVER
        hand_over();
#endif
        moved >= threshold
     fi
  od
}

active proctype worker() {
  byte call;
  bool any, was_on_duty, writes;
  for (call : 1 .. kCalls) {
    // NetPort::enqueue: counted and left there at once. Who has the lock takes it in before it looks
    // for what is filled.
    target = target + kStepsOfCall;
    do
    :: filled == target -> break
    :: filled < target ->
       filled++;
       if
       :: wait_for(filled)
       :: true
       fi
    od;
    // Communicator::finished
    if
    :: atomic { BUSY && !locked && posted < filled -> keeps = true }
#ifdef PLANT_KEEPS_BY_DUTY
       hand_over()
#else
#ifndef PLANT_KEEPS_WITHOUT_LOOK_IN
       look_in()
#endif
#endif
    :: BUSY ->
#ifndef PLANT_LEAVES_WITHOUT_LOOK
       progress();
#endif
#ifndef PLANT_LEAVES_WITHOUT_HAND_OVER
       hand_over()
#endif
    :: !BUSY
    fi
  }
  worker_gone = true
}

// A port that has nothing under way goes off duty.
inline round() {
#ifndef PLANT_CLEARS_NEWS_LATE
  atomic { news = false; sleeps = false };
#endif
  port_on_duty = false;
  looks_again = false;
  moved_kept = false;
  if
  :: looked_after && keeps -> looks_again = true
  :: looked_after ->  // the time is over, or nothing is kept
#ifndef PLANT_FORGETS_AFTER_LOOK
     looked_after = false;
#endif
     if
     :: BUSY ->
        progress();
        moved_kept = any;
        if
        :: BUSY -> atomic { !off_duty_stored -> on_duty = true }
        :: else
        fi
     :: else
     fi;
#ifdef PLANT_FORGETS_AFTER_LOOK
     looked_after = false
#endif
  :: else
  fi;
  if
  :: on_duty ->
     progress();
     any = any || moved_kept;
#ifdef PLANT_STAYS_ON_DUTY
     port_on_duty = true
#else
     if
     :: BUSY -> port_on_duty = true
     :: else ->
#ifdef PLANT_DUTY_WITHOUT_SEQ_CST
        off_duty_stored = true;
#else
        on_duty = false;
#endif
#ifndef PLANT_NO_SECOND_LOOK
        if
        :: BUSY -> atomic { !off_duty_stored -> on_duty = true }; port_on_duty = true
        :: else
        fi
#endif
     fi
#endif
  :: else -> any = moved_kept
  fi;
  if
  :: late -> late_rounds++; assert(late_rounds < 4)
  :: else
  fi
}

active proctype engine() {
  bool any, port_on_duty, looks_again, moved_kept, has_news;
  do
  :: round();
#ifdef PLANT_CLEARS_NEWS_LATE
     atomic { news = false; sleeps = false };
#endif
     if
     :: any
     :: else ->
        // prepare_sleep: the net has nothing to report, and its descriptor is watched from here on.
        if
        :: port_on_duty && moved < let  // look again
        :: else ->
           atomic { sleeps = true; has_news = news };
           if
#ifndef PLANT_SLEEPS_IN_SPITE_OF_NEWS
           :: has_news  // look again
           :: !has_news ->
#else
           :: true ->
#endif
end:          if
              :: wake_up
              :: port_on_duty && moved < let
              :: port_on_duty && late
              :: looks_again
              fi;
              wake_up = false
           fi
        fi
     fi
  od
}

active proctype who_waits_for_the_messages() {
  atomic { worker_gone && moved == kSteps -> late = true }
}
