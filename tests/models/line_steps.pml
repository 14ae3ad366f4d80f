// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One direction of a connection that a net joins and whose steps may go by lines, at each end as
// that end says: slots of lines beside slots of Simple, guarded by the same counters.
//
// Models: core/transport/line_steps.h (collect, deliver, pass), how NetConnection turns steps into
// messages (next_send, take, complete), PairLines in core/device/pair_lines.h (put, take), step_flag
// and fills_whole_slot. Words and their order are those of step_lines.pml; a line is one word here.
//
// Steps have one line or two, and each end takes lines or Simple, in any order and without end. The
// port of the sender stages what it collects in the slot of Simple, where the net reads it until the
// send is complete; that of the receiver finds it in such a slot. What fills the rest of a slot may
// be stored after the port has taken the step's own lines.
//
// Holds:
//  - a port or a kernel takes lines of its own step alone, also after flags have begun again;
//  - no line, and no slot of Simple, is overwritten before it was taken;
//  - nobody waits for ever.
//
// Planted mistakes, and what they are found by:
// PLANT_SENDER_PASSES_BY: an assertion
// PLANT_RECEIVER_PASSES_BY: an assertion
// PLANT_PASSES_AFTER_HEAD: an assertion
// PLANT_KERNEL_FILLS_NO_REST: an assertion
// PLANT_PORT_FILLS_NO_REST: an assertion
// PLANT_COLLECTS_BEFORE_LAST_LINE: an assertion
// PLANT_HEAD_BEFORE_SENT: an assertion
// PLANT_WAITS_FOR_NO_HEAD: an assertion
// PLANT_GOES_BY_OTHER_END: an assertion

#define kSlots 2
#define kLines 2   // of a slot
#define kPeriod 8  // steps are told apart by their number modulo this
#define kAhead 4   // room for what the hosts have said of steps
#ifndef AHEAD
#define AHEAD 3    // steps of which they say it before they are over
#endif

#define FLAG(step) (((step) + 1) % kPeriod)
#define NEXT(step) (((step) + 1) % kPeriod)
#define SINCE(earlier, later) (((later) + kPeriod - (earlier)) % kPeriod)
#define kHalf (kPeriod / 2 - 1)
#define FILLS(step) ((FLAG(step) & kHalf) > kHalf - kSlots)
#define SLOT(step) ((step) % kSlots)
#define LINE(step, line) (SLOT(step) * kLines + (line))

typedef Line {
  byte flag;
  bool fresh;  // of a step, and nobody has taken it
};
Line outbox[kSlots * kLines];  // the sender's kernel stores, its port takes
Line inbox[kSlots * kLines];   // the receiver's port stores, its kernel takes

// Slots of Simple: whether there is something that somebody will read.
bool out_full[kSlots];
bool in_full[kSlots];

byte said;            // steps of which it was said
byte lines[kAhead];   // how many they have,
bool sends[kAhead];   // and whether the sender's kernel,
bool takes[kAhead];   // or the receiver's, goes by lines
byte taken;           // by the receiver's kernel
byte out_tail, out_head, in_tail, in_head;

chan net = [2] of { byte };

inline store(line, step) {
  assert(!line.fresh);
  line.flag = FLAG(step);
  line.fresh = true
}
inline fill(line, step) {
  assert(!line.fresh);
  line.flag = FLAG(step)
}
inline take(line) {
  assert(line.fresh);
  line.fresh = false
}
// Of a step that goes otherwise.
inline pass(first, second, step) {
  if
  :: FILLS(step) -> fill(first, step); fill(second, step)
  :: else
  fi
}

inline say(how_many, by_sender, by_receiver) {
  d_step {
    SINCE(taken, said) < AHEAD ->
    lines[said % kAhead] = how_many;
    sends[said % kAhead] = by_sender;
    takes[said % kAhead] = by_receiver;
    said = NEXT(said)
  }
}

active proctype hosts() {
  do
  :: say(1, false, false)
  :: say(1, false, true)
  :: say(1, true, false)
  :: say(1, true, true)
  :: say(kLines, false, false)
  :: say(kLines, false, true)
  :: say(kLines, true, false)
  :: say(kLines, true, true)
  od
}

active proctype sending_kernel() {
  byte step;
  do
  :: said != step && SINCE(out_head, step) < kSlots ->
     if
     :: sends[step % kAhead] && lines[step % kAhead] == 1 ->
        d_step { store(outbox[LINE(step, 0)], step) };
#ifndef PLANT_KERNEL_FILLS_NO_REST
        d_step {
          if
          :: FILLS(step) -> fill(outbox[LINE(step, 1)], step)
          :: else
          fi;
          step = NEXT(step)
        }
#else
        d_step { step = NEXT(step) }
#endif
     :: sends[step % kAhead] && lines[step % kAhead] == kLines ->
        d_step { store(outbox[LINE(step, 0)], step) };
        d_step { store(outbox[LINE(step, 1)], step); step = NEXT(step) }
     :: !sends[step % kAhead] ->
        d_step {
          assert(!out_full[SLOT(step)]);
          out_full[SLOT(step)] = true;
          step = NEXT(step);
          out_tail = step
        }
     fi
  od
}

#define LATEST ((done + kPeriod - 1) % kPeriod)
#define HAS_LINE(box, line, step) (box[LINE(step, line)].flag == FLAG(step))
#ifdef PLANT_COLLECTS_BEFORE_LAST_LINE
#define HAS_COME HAS_LINE(outbox, 0, step)
#else
#define HAS_COME (HAS_LINE(outbox, 0, step) && (lines[step % kAhead] == 1 || HAS_LINE(outbox, 1, step)))
#endif
#define HAS_TAIL (SINCE(step, out_tail) != 0 && SINCE(step, out_tail) <= kSlots)

// With the step's lines, or its slot of Simple.
inline send() {
  assert(!staged[SLOT(step)]);
  staged[SLOT(step)] = true;
  net!step;
  step = NEXT(step)
#ifdef PLANT_HEAD_BEFORE_SENT
  ; out_head = step
#endif
}

active proctype sending_port() {
  byte step;            // what is collected next
  byte done;            // sends
  bool staged[kSlots];  // what the net reads
#ifdef PLANT_PASSES_AFTER_HEAD
  bool passes[kSlots];
#endif
  do
  :: d_step {
       said != step && sends[step % kAhead] && SINCE(done, step) < kSlots && HAS_COME && nfull(net) ->
       assert(!out_full[SLOT(step)]);
       take(outbox[LINE(step, 0)]);
       if
       :: lines[step % kAhead] == kLines -> take(outbox[LINE(step, 1)])
       :: else
       fi;
       // No lines move it; it must not be taken for one that is a period ahead.
       if
       :: !HAS_TAIL -> out_tail = NEXT(step)
       :: else
       fi;
       send()
     }
  :: d_step {
       said != step && !sends[step % kAhead] && SINCE(done, step) < kSlots && HAS_TAIL && nfull(net) ->
#ifdef PLANT_PASSES_AFTER_HEAD
       passes[SLOT(step)] = true;
#elif !defined(PLANT_SENDER_PASSES_BY)
       pass(outbox[LINE(step, 0)], outbox[LINE(step, 1)], step);
#endif
       send()
     }
  :: d_step {
       done != step ->
       staged[SLOT(done)] = false;
       out_full[SLOT(done)] = false;
       done = NEXT(done);
#ifndef PLANT_HEAD_BEFORE_SENT
       out_head = done
#endif
     };
#ifdef PLANT_PASSES_AFTER_HEAD
     d_step {
       if
       :: passes[SLOT(LATEST)] ->
          passes[SLOT(LATEST)] = false;
          pass(outbox[LINE(LATEST, 0)], outbox[LINE(LATEST, 1)], LATEST)
       :: else
       fi
     }
#endif
  od
}

#ifdef PLANT_WAITS_FOR_NO_HEAD
#define HAS_ROOM true
#else
#define HAS_ROOM (SINCE(in_head, step) < kSlots)
#endif
#ifdef PLANT_GOES_BY_OTHER_END
#define GOES_BY_LINES sends[step % kAhead]
#else
#define GOES_BY_LINES takes[step % kAhead]
#endif

active proctype receiving_port() {
  byte step;
  byte come;
  bool second;  // line that is to be stored
  do
  :: d_step {
       HAS_ROOM && !second && nempty(net) ->
       net?come;
       assert(come == step && !in_full[SLOT(step)]);
       come = 0;
       if
       :: GOES_BY_LINES ->
          store(inbox[LINE(step, 0)], step);
          second = lines[step % kAhead] == kLines;
#ifndef PLANT_PORT_FILLS_NO_REST
          if
          :: !second && FILLS(step) -> fill(inbox[LINE(step, 1)], step)
          :: else
          fi
#endif
       :: else ->
#ifndef PLANT_RECEIVER_PASSES_BY
          pass(inbox[LINE(step, 0)], inbox[LINE(step, 1)], step);
#endif
          in_full[SLOT(step)] = true
       fi;
       if
       :: !second -> step = NEXT(step); in_tail = step
       :: else
       fi
     }
  :: d_step {
       second ->
       store(inbox[LINE(step, 1)], step);
       second = false;
       step = NEXT(step);
       in_tail = step
     }
  od
}

#define TAKEN_LINES \
  (HAS_LINE(inbox, 0, taken) && (lines[taken % kAhead] == 1 || HAS_LINE(inbox, 1, taken)))

inline next_taken() {
  // What it was need not be told any more.
  lines[taken % kAhead] = 0;
  sends[taken % kAhead] = false;
  takes[taken % kAhead] = false;
  taken = NEXT(taken);
  in_head = taken
}

active proctype receiving_kernel() {
  do
  :: d_step {
       said != taken && takes[taken % kAhead] && TAKEN_LINES ->
       take(inbox[LINE(taken, 0)]);
       if
       :: lines[taken % kAhead] == kLines -> take(inbox[LINE(taken, 1)])
       :: else
       fi;
       next_taken()
     }
  :: d_step {
       said != taken && !takes[taken % kAhead] && in_tail != taken && SINCE(taken, in_tail) <= kSlots ->
       assert(in_full[SLOT(taken)]);
       in_full[SLOT(taken)] = false;
       next_taken()
     }
  od
}
