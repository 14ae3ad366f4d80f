// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The FIFO of steps between two ranks, and how each sleeps on the other's counter.
//
// Models: core/model/connection_view.h (slots, head, tail), core/base/wait.h (post, sleep_on),
// SimplePrimitives::run, await, await_return, take_lent and withdraw in core/device/primitives_simple.h,
// PairBatch::step, look_at_counter and wait_until_taken in core/device/pair_batch.h.
//
// Holds, for 1 to 3 slots:
//  - no slot is filled before it was consumed, none is read before it was filled, steps keep their
//    order;
//  - no wake-up is lost, though no sleep has a time limit here (in the code each has, of 50 ms);
//  - a lent payload is not read any more once its owner has it back, though its call fails, where
//    the receiver is of the same process.
//
// Memory is weaker than a CPU's: stores wait in a buffer and leave it in any order, except that a
// counter follows what was stored before it (release); a sequentially consistent store has left the
// buffer before the next statement. A futex compares the low bits of a counter alone.
//
// Planted mistakes, and what they are found by:
// PLANT_POST_WITHOUT_SEQ_CST: a deadlock
// PLANT_NO_SECOND_LOOK: a deadlock
// PLANT_FUTEX_WITHOUT_COMPARE: a deadlock
// PLANT_FEW_LOW_BITS: a deadlock
// PLANT_TAIL_WITHOUT_RELEASE: an assertion
// PLANT_TAIL_WITHOUT_ACQUIRE: an assertion
// PLANT_HEAD_BEFORE_READING: an assertion
// PLANT_CREDIT_OFF_BY_ONE: an assertion
// PLANT_NO_AWAIT_RETURN: an assertion
// PLANT_WITHDRAWS_WHILE_READ: an assertion
// PLANT_READS_WITHOUT_TAKING: an assertion

#define kSlots 3     // at most
#define kLastStep 6  // steps that are sent
#ifdef PLANT_FEW_LOW_BITS
#define LOW(counter) ((counter) & 1)  // wrong: fewer values than a counter can gain meanwhile
#else
#define LOW(counter) ((counter) & 3)  // in the code 32 bits
#endif

byte steps;  // slots of this connection

// Shared memory. A slot holds 1 + the step that filled it; payload and description apart.
byte payload[kSlots];
byte meta[kSlots];
byte tail, head;
#define kOpen 1
#define kTaken 2
#define kWithdrawn 3
byte lent[kSlots];  // states of slots that lend
bool told;          // the receiver's host knows that the sender's call failed
byte tail_waiters, head_waiters;

// Store buffers: of the sender, then of the receiver.
bool payload_stored, meta_stored, tail_stored, head_stored;
byte buffered_slot, buffered_step, buffered_tail, buffered_head;

// The kernel's side of the futexes.
bool tail_asleep, head_asleep;

// What is only known to the checker.
bool unread[kSlots];
bool lends;     // payloads stay in the caller's buffer
bool returned;  // which the caller has again

#ifdef PLANT_TAIL_WITHOUT_RELEASE
#define ORDERED true
#else
#define ORDERED (!payload_stored && !meta_stored)
#endif

active proctype sender_stores() {
end:
  do
  :: atomic { payload_stored -> payload_stored = false;
      assert(!unread[buffered_slot]);  // not consumed yet
      unread[buffered_slot] = true;
      lent[buffered_slot] = kOpen;
      payload[buffered_slot] = buffered_step }
  :: atomic { meta_stored -> meta_stored = false; meta[buffered_slot] = buffered_step }
  :: atomic { tail_stored && ORDERED -> tail_stored = false; tail = buffered_tail }
  od
}

active proctype receiver_stores() {
end:
  do
  :: atomic { head_stored -> head_stored = false; head = buffered_head }
  od
}

// wait.h: post.
inline post(stored, buffered, value, waiters, asleep) {
  atomic { !stored -> stored = true; buffered = value };
#ifndef PLANT_POST_WITHOUT_SEQ_CST
  !stored;
#endif
  if
  :: waiters != 0 -> asleep = false
  :: else
  fi
}

// wait.h: Waiter::wait with sleep_on. Who spins waits at the first statement.
inline wait_for(counter, waiters, asleep, threshold) {
  do
  :: atomic { counter >= threshold -> seen = counter; break }
  :: counter < threshold ->
     waiters++;
     seen = counter;
     if
#ifdef PLANT_NO_SECOND_LOOK
     :: true ->
#else
     :: seen < threshold ->
#endif
        atomic {
          if
#ifdef PLANT_FUTEX_WITHOUT_COMPARE
          :: true -> asleep = true
#else
          :: LOW(counter) == LOW(seen) -> asleep = true
          :: else
#endif
          fi
        };
        !asleep || told
#ifndef PLANT_NO_SECOND_LOOK
     :: else
#endif
     fi;
     waiters--
  od
}

#ifdef PLANT_CREDIT_OFF_BY_ONE
#define CREDITS (steps + 1)
#else
#define CREDITS steps
#endif

proctype sender() {
  byte step, seen, seen_head;
  do
  :: step == kLastStep -> break
  :: lends -> goto fails  // also while it waits below
  :: step < kLastStep ->
     if
     :: seen_head + CREDITS <= step || step == 0 ->
        wait_for(head, head_waiters, head_asleep, (step < CREDITS -> 0 : step + 1 - CREDITS));
        seen_head = seen
     :: else
     fi;
     atomic { !payload_stored && !meta_stored -> buffered_slot = step % steps;
       buffered_step = step + 1; payload_stored = true; meta_stored = true };
     post(tail_stored, buffered_tail, step + 1, tail_waiters, tail_asleep);
     step++
  od;
#ifndef PLANT_NO_AWAIT_RETURN
  if
  :: lends -> wait_for(head, head_waiters, head_asleep, step)
  :: else
  fi;
#endif
  goto ends;
fails:
  atomic { !payload_stored -> seen = head };
  do
  :: seen == step -> break
  :: else ->
     if
     :: atomic { lent[seen % steps] == kOpen -> lent[seen % steps] = kWithdrawn }
     :: else ->
#ifndef PLANT_WITHDRAWS_WHILE_READ
        head > seen
#else
        skip
#endif
     fi;
     seen++
  od;
ends:
  returned = true;
  told = step < kLastStep
}

inline take(slot) {
  assert(!lends || !returned);
  assert(payload[slot] == step + 1);
  unread[slot] = false
}

proctype receiver() {
  byte step, seen, seen_tail, slot;
#ifdef PLANT_TAIL_WITHOUT_ACQUIRE
  byte early;
#endif
  do
  :: step == kLastStep -> break
  :: else ->
     slot = step % steps;
#ifdef PLANT_TAIL_WITHOUT_ACQUIRE
     early = payload[slot];
#endif
     if
     :: seen_tail <= step ->
        wait_for(tail, tail_waiters, tail_asleep, (told -> 0 : step + 1));
        seen_tail = seen
     :: else
     fi;
     if
     :: seen_tail <= step -> break  // its host has told it
     :: else
     fi;
     assert(meta[slot] == step + 1);
#ifdef PLANT_TAIL_WITHOUT_ACQUIRE
     assert(early == step + 1);
#endif
#ifndef PLANT_READS_WITHOUT_TAKING
     if
     :: atomic { lends && lent[slot] == kOpen -> lent[slot] = kTaken }
     :: lends && lent[slot] == kWithdrawn -> break
     :: !lends
     fi;
#endif
#ifdef PLANT_HEAD_BEFORE_READING
     post(head_stored, buffered_head, step + 1, head_waiters, head_asleep);
     atomic { take(slot) };
#else
     atomic { take(slot) };
     post(head_stored, buffered_head, step + 1, head_waiters, head_asleep);
#endif
     step++
  od
}

init {
  atomic {
    select(steps : 1 .. kSlots);
    if
    :: lends = true
    :: lends = false
    fi;
    run sender();
    run receiver()
  }
}
