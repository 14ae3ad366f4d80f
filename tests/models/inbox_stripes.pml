// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// One direction between inboxes that a net joins, in two stripes: each has a port at either end, which
// takes other lines of the same halves, and a connection of its own. What one stripe alone does, and
// with kernels of several parts, is that of inbox_messages.pml.
//
// Models: core/transport/line_messages.h (place_of, collect, deliver, wipe) as core/comm/inbox_ports.cc
// (enqueue) has them divide calls, and core/transport/net_connection.h, which hands messages to the net.
//
// Rank 0 makes calls of one line and of two, in any order and without end. Of two lines the second
// goes by the second stripe, but for calls at the end of a period, after which a half is wiped: these go
// whole by the first, as those of one line do. The second stripe is told of its own calls alone. Rank
// 1's kernel answers each call when it begins, by a line that comes at once, and takes the lines of
// rank 0 in any order. A kernel begins when the one before it has ended; ports know of calls before.
//
// A net keeps the order of messages, and reads one until it says that the send is complete. It says
// so here when the port cannot go on without: were it told earlier, it could do nothing more.
//
// Holds:
//  - kernels and ports take lines of their own call alone, also after flags have begun again;
//  - no line is overwritten, nor wiped, before it was taken;
//  - no message is overwritten while the net reads it, and no two receives have one place: a port has
//    two, which its own messages take in turn, whichever calls these are of;
//  - nobody waits for ever.
//
// Planted mistakes, and what they are found by:
// PLANT_STRIPES_TO_THE_END: an assertion
// PLANT_PLACE_OF_CALL: an assertion
// PLANT_KERNEL_WAITS_FOR_FIRST_STRIPE_ALONE: an assertion

#define kPeriod 4
#define kCalls 8  // calls are told apart by their number modulo this, which is more than a period

byte lines_of[kCalls];  // of the latest calls, which the ranks agree on
byte ended[2];          // kernels

#define NEXT(call) (((call) + 1) % kCalls)
#define SINCE(earlier, later) (((later) + kCalls - (earlier)) % kCalls)
#define FLAG(call) ((call) % kPeriod + 1)
#define ENDS_PERIOD(call) (FLAG(call) + 1 >= kPeriod)

typedef Line {
  byte flag;
  byte call;   // what its payload tells
  bool fresh;  // nobody has taken it
};
Line outbox[4];  // rank 0's kernel stores, its ports take: two halves of two lines
Line inbox[4];   // rank 1's ports store, its kernel takes
byte answer[2];  // the flag that rank 1's kernel has stored in a half
#define PLACE(half, line) ((half) * 2 + (line))

chan net[2] = [2] of { byte, byte };  // of each stripe: the payload of each line

#ifdef PLANT_STRIPES_TO_THE_END
#define HAS_STRIPES(call) (lines_of[call] == 2)
#else
#define HAS_STRIPES(call) (lines_of[call] == 2 && !ENDS_PERIOD(call))
#endif
// The lines of a stripe are number `stripe` and those up to here.
#define END_OF_STRIPE(call) \
  (HAS_STRIPES(call) -> stripe + 1 : (stripe == 0 -> lines_of[call] : 0))
// A call that is known to have none for this stripe.
#define IS_NOT_ITS(call) (stripe == 1 && lines_of[call] != 0 && !HAS_STRIPES(call))
// Which call the second stripe's sender and receiver have come to.
byte at[2];

inline store(line, payload_of_line) {
  assert(!line.fresh);
  line.flag = FLAG(call);
  line.call = payload_of_line;
  line.fresh = true
}

inline take(line) {
  assert(line.call == call);
  line.fresh = false
}

inline wipe(line) {
  assert(!line.fresh);
  line.flag = 0;
  line.call = 0
}

// What the program calls next, once a kernel may begin with it. Nobody has yet to take lines of the
// calls before the latest two, so whoever passes over some has passed over these.
inline choose(lines) {
  d_step {
    (ended[0] == call || ended[1] == call) && SINCE(at[0], call) < 2 && SINCE(at[1], call) < 2 ->
    lines_of[call] = lines;
    lines_of[(call + kCalls / 2) % kCalls] = 0;
    call = NEXT(call)
  }
}

active proctype program() {
  byte call;
  do
  :: choose(1)
  :: choose(2)
  od
}

#define MAY_BEGIN(rank) (ended[rank] == call && lines_of[call] != 0)

active proctype first_kernel() {
  byte call;
  byte stored;  // lines, a bit each
  do
  :: d_step {
       MAY_BEGIN(0) && !(stored & 1) -> store(outbox[PLACE(call % 2, 0)], call); stored = stored | 1
     }
  :: d_step {
       MAY_BEGIN(0) && !(stored & 2) && lines_of[call] == 2 ->
       store(outbox[PLACE(call % 2, 1)], call);
       stored = stored | 2
     }
  :: d_step {
       MAY_BEGIN(0) && stored == 2 * lines_of[call] - 1 && answer[call % 2] == FLAG(call) ->
       stored = 0;
       ended[0] = NEXT(call);
       call = NEXT(call)
     }
  od
}

// Wipes the other half, of which all lines are taken, before it lets rank 0 go on.
inline begin_call() {
  if
  :: ENDS_PERIOD(call) ->
     wipe(inbox[PLACE(1 - call % 2, 0)]);
     wipe(inbox[PLACE(1 - call % 2, 1)])
  :: else
  fi;
  answer[call % 2] = FLAG(call);
  has_answered = true
}

#define HAS_COME_TO(number) (inbox[PLACE(call % 2, number)].flag == FLAG(call))
#ifdef PLANT_KERNEL_WAITS_FOR_FIRST_STRIPE_ALONE
#define MAY_END (taken & 1)
#else
#define MAY_END (taken == 2 * lines_of[call] - 1)
#endif

active proctype second_kernel() {
  byte call;
  byte taken;  // lines, a bit each
  bool has_answered;
  do
  :: d_step { MAY_BEGIN(1) && !has_answered -> begin_call() }
  :: d_step {
       MAY_BEGIN(1) && has_answered && !(taken & 1) && HAS_COME_TO(0) ->
       take(inbox[PLACE(call % 2, 0)]);
       taken = taken | 1
     }
  :: d_step {
       MAY_BEGIN(1) && has_answered && !(taken & 2) && lines_of[call] == 2 && HAS_COME_TO(1) ->
       take(inbox[PLACE(call % 2, 1)]);
       taken = taken | 2
     }
  :: d_step {
       MAY_BEGIN(1) && has_answered && MAY_END ->
       taken = 0;
       has_answered = false;
       ended[1] = NEXT(call);
       call = NEXT(call)
     }
  od
}

// ---- Ports

#ifdef PLANT_PLACE_OF_CALL
#define PLACE_OF_MESSAGE (call % 2)
#else
#define PLACE_OF_MESSAGE place
#endif

inline go_on_to_next(end) {
  call = NEXT(call);
  if
  :: stripe == 1 -> at[end] = call
  :: else
  fi
}

inline send() {
  net_reads[PLACE_OF_MESSAGE] = true;
  net[stripe]!payload[0], payload[1];
  payload[0] = 0;
  payload[1] = 0;
  place = 1 - place;
  under_way++;
  go_on_to_next(0);
  line = stripe
}

proctype sender(byte stripe) {
  byte call;            // what is collected next
  byte line = stripe;
  byte payload[2];      // of its message
  byte under_way;       // messages
  byte place;           // of the next one, and of the oldest if there are two
  bool net_reads[2];
  do
  :: d_step {
       under_way < 2 && line < END_OF_STRIPE(call) &&
         outbox[PLACE(call % 2, line)].flag == FLAG(call) ->
       assert(!net_reads[PLACE_OF_MESSAGE]);
       take(outbox[PLACE(call % 2, line)]);
       payload[line] = call;
       line++
     }
  :: d_step {
       line != stripe && line == END_OF_STRIPE(call) ->
       if
       :: stripe == 0 && ENDS_PERIOD(call) ->
          wipe(outbox[PLACE(call % 2, 0)]);
          wipe(outbox[PLACE(call % 2, 1)])
       :: else
       fi;
       send()
     }
  :: d_step { under_way == 2 -> net_reads[place] = false; under_way-- }
  :: d_step { IS_NOT_ITS(call) -> go_on_to_next(0) }
  od
}

// Of calls to come nobody knows whether they have lines for the second stripe.
#define MAY_POST \
  (under_way < 2 && (stripe == 0 || HAS_STRIPES(posted)))

inline post() {
  assert(!net_writes[(place + under_way) % 2]);
  net_writes[(place + under_way) % 2] = true;
  under_way++;
  posted = NEXT(posted)
}

// A port posts what receives it may before it looks for messages.
proctype receiver(byte stripe) {
  byte call;            // what comes next
  byte line = stripe;
  byte payload[2];      // of its message
  byte posted;          // what the next receive is for
  byte under_way;       // receives
  byte place;           // of the message that comes next
  bool net_writes[2];
  do
  :: d_step { MAY_POST -> post() }
  :: d_step {
       !MAY_POST && under_way != 0 && line < END_OF_STRIPE(call) &&
         (line != stripe || nempty(net[stripe])) ->
       if
       :: line == stripe -> net[stripe]?payload[0], payload[1]
       :: else
       fi;
       store(inbox[PLACE(call % 2, line)], payload[line]);
       payload[line] = 0;
       line++;
       if
       :: line == END_OF_STRIPE(call) ->
          line = stripe;
          net_writes[place] = false;
          place = 1 - place;
          under_way--;
          go_on_to_next(1)
       :: else
       fi
     }
  :: d_step { IS_NOT_ITS(posted) -> posted = NEXT(posted) }
  :: d_step { IS_NOT_ITS(call) && posted != call -> go_on_to_next(1) }
  od
}

init {
  atomic {
    run sender(0);
    run sender(1);
    run receiver(0);
    run receiver(1)
  }
}
