// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Inboxes that a net joins: kernels of GPUs store lines, and look for lines, in their own host's
// memory, and the rank's port carries them over as messages, one for each call.
//
// Models: core/transport/line_messages.h (collect, deliver, wipe), and how NetConnection and NetPort
// hand messages to the net (ready, freed, next_send, next_receive, complete). What kernels do is that of
// flagged_lines.pml, which has words and their order, too; a line is one word here.
//
// Two ranks make calls of one line and of two, in any order and without end, so that lines of older
// calls lie behind what a call stores. In a call of two lines each has a part of the kernel for
// itself, which wipes its share, stores its line, takes the other rank's, and waits for no other
// part. A kernel begins when the one before it has ended. A host enqueues a call with its port
// before it launches the kernel: any number of calls ahead, or only after the kernel before. An
// engine looks at all that its port may do in turn, and waits for nothing.
//
// A net keeps the order of messages, and reads one until it says that the send is complete. It says
// so here when the port cannot go on without: were it told earlier, it could do nothing more. Wipes
// are late, too: they are one step with the store, or with the message, that must come after them.
//
// Holds:
//  - kernels and ports take lines of their own call alone, also after flags have begun again;
//  - no line is overwritten, nor wiped, before it was taken: by a kernel before the port has
//    collected it, by the port before the kernel has taken it;
//  - no message is overwritten while the net reads it, and no two receives have one place;
//  - nobody waits for ever.
//
// Planted mistakes, and what they are found by:
// PLANT_ONE_HALF_OF_OUTBOX: an assertion
// PLANT_ONE_HALF_OF_INBOX: an assertion
// PLANT_COLLECTS_BEFORE_LAST_LINE: an assertion
// PLANT_WAITS_FOR_NO_SEND: an assertion
// PLANT_WAITS_FOR_NO_RECEIVE: an assertion
// PLANT_PORT_WIPES_NOTHING: an assertion
// PLANT_PORT_WIPES_ONE_HALF: an assertion
// PLANT_PORT_WIPES_OTHER_HALF: an assertion
// PLANT_PORT_WIPES_AFTER_SENDING: an assertion
// PLANT_KERNEL_WIPES_NOTHING: an assertion
// PLANT_KERNEL_WIPES_ONE_HALF: an assertion
// PLANT_KERNEL_WIPES_AFTER_PUSHING: an assertion
// PLANT_PART_WITHOUT_LINE_WIPES: an assertion
// PLANT_TAKES_BEFORE_PUSHING: a deadlock

#define RANKS 2
#define LINES 2
#define kPeriod 4
#define kCalls 8  // calls are told apart by their number modulo this, which is more than a period

bool goes_ahead[RANKS];  // hosts
byte lines_of[kCalls];   // of the latest calls, which the ranks agree on
byte ended[RANKS];       // kernels
byte parts_ended[RANKS];

#define NEXT(call) (((call) + 1) % kCalls)
#define SINCE(earlier, later) (((later) + kCalls - (earlier)) % kCalls)
#define FLAG(call) ((call) % kPeriod + 1)

typedef Line {
  byte flag;
  byte call;   // what its payload tells
  bool fresh;  // nobody has taken it
};
Line outbox[RANKS * 2 * LINES];  // the kernel stores, the port of the same rank takes
Line inbox[RANKS * 2 * LINES];   // the other way round
#define PLACE(half, line) ((rank * 2 + (half)) * LINES + (line))

#ifdef PLANT_ONE_HALF_OF_OUTBOX
#define OUTBOX_HALF 0
#else
#define OUTBOX_HALF (call % 2)
#endif
#ifdef PLANT_ONE_HALF_OF_INBOX
#define INBOX_HALF 0
#else
#define INBOX_HALF (call % 2)
#endif
#define TO_PORT(line) outbox[PLACE(OUTBOX_HALF, line)]
#define TO_KERNEL(line) inbox[PLACE(INBOX_HALF, line)]

// Messages of rank r that are under way: the payload of each line.
chan net[RANKS] = [2] of { byte, byte };

inline store(line, payload_of_line) {
  assert(!line.fresh);
  line.flag = FLAG(call);
  line.call = payload_of_line;
  line.fresh = true
}

inline wipe(line) {
  assert(!line.fresh);
  line.flag = 0;
  line.call = 0
}

// What the program calls next, once a kernel may begin with it.
inline choose(lines) {
  d_step {
    ended[0] == call || ended[1] == call ->
    lines_of[call] = lines;
    lines_of[(call + kCalls / 2) % kCalls] = 0;
    call = NEXT(call)
  }
}

active proctype program() {
  byte call;
  do
  :: choose(1)
  :: choose(LINES)
  od
}

// Whether the port knows of a call: a host that does not go ahead enqueues the one that may begin.
#define ENQUEUED(call) (goes_ahead[rank] || SINCE(call, ended[rank]) < kCalls / 2)

// ---- The kernel

#ifdef PLANT_KERNEL_WIPES_ONE_HALF
#define KERNEL_WIPES (FLAG(call) + 1 == kPeriod)
#elif defined(PLANT_KERNEL_WIPES_NOTHING)
#define KERNEL_WIPES false
#else
#define KERNEL_WIPES (FLAG(call) + 1 >= kPeriod)
#endif

// A part's share of the inbox's other half: all of it, if there is no other part.
inline wipe_share() {
  if
  :: KERNEL_WIPES ->
     wipe(inbox[PLACE(1 - INBOX_HALF, number)]);
#ifndef PLANT_PART_WITHOUT_LINE_WIPES
     if
     :: lines_of[call] == 1 -> wipe(inbox[PLACE(1 - INBOX_HALF, 1)])
     :: else
     fi
#endif
  :: else
  fi
}

inline take() {
  TO_KERNEL(number).flag == FLAG(call) ->
  assert(TO_KERNEL(number).call == call);
  TO_KERNEL(number).fresh = false
}

inline end_part() {
  parts_ended[rank]++;
  if
  :: parts_ended[rank] == LINES -> parts_ended[rank] = 0; ended[rank] = NEXT(call)
  :: else
  fi;
  call = NEXT(call)
}

#define MAY_BEGIN (ended[rank] == call && lines_of[call] != 0)

proctype part(byte rank, number) {
  byte call;
  do
#if defined(PLANT_TAKES_BEFORE_PUSHING)
  :: MAY_BEGIN && number < lines_of[call] ->
     d_step { take() };
     d_step { wipe_share(); store(TO_PORT(number), call); end_part() }
#elif defined(PLANT_KERNEL_WIPES_AFTER_PUSHING)
  :: d_step { MAY_BEGIN && number < lines_of[call] -> store(TO_PORT(number), call) };
     d_step { wipe_share() };
     d_step { take(); end_part() }
#else
  :: d_step {
       MAY_BEGIN && number < lines_of[call] -> wipe_share(); store(TO_PORT(number), call)
     };
     d_step { take(); end_part() }
#endif
  :: d_step {
       MAY_BEGIN && number >= lines_of[call] ->
#ifdef PLANT_PART_WITHOUT_LINE_WIPES
       wipe_share();
#endif
       end_part()
     }
  od
}

// ---- The ports, which may be one or two, by a connection each. The message of a call lies where its
// half does.

#ifdef PLANT_COLLECTS_BEFORE_LAST_LINE
#define HAS_COME (TO_PORT(line).flag == FLAG(call) || line == LINES - 1)
#else
#define HAS_COME (TO_PORT(line).flag == FLAG(call))
#endif

#ifdef PLANT_PORT_WIPES_ONE_HALF
#define PORT_WIPES (FLAG(call) + 1 == kPeriod)
#elif defined(PLANT_PORT_WIPES_NOTHING)
#define PORT_WIPES false
#else
#define PORT_WIPES (FLAG(call) + 1 >= kPeriod)
#endif
#ifdef PLANT_PORT_WIPES_OTHER_HALF
#define WIPED_HALF (1 - OUTBOX_HALF)
#else
#define WIPED_HALF OUTBOX_HALF
#endif

inline wipe_half() {
  if
  :: PORT_WIPES ->
     wipe(outbox[PLACE(WIPED_HALF, 0)]);
     wipe(outbox[PLACE(WIPED_HALF, 1)])
  :: else
  fi
}

inline send() {
  net_reads[call % 2] = true;
  net[rank]!payload[0], payload[1];
  payload[0] = 0;
  payload[1] = 0
}

#ifdef PLANT_WAITS_FOR_NO_SEND
#define MAY_COLLECT true
#else
#define MAY_COLLECT (SINCE(done, call) < 2)
#endif

proctype sender(byte rank) {
  byte call, line;      // what is collected next
  byte payload[LINES];  // of its message
  byte done;            // sends
  bool net_reads[2];
  do
  :: d_step {
       ENQUEUED(call) && MAY_COLLECT && line < lines_of[call] && HAS_COME ->
       assert(!net_reads[call % 2]);
       assert(TO_PORT(line).call == call);
       TO_PORT(line).fresh = false;
       payload[line] = call;
       line++
     }
#ifdef PLANT_PORT_WIPES_AFTER_SENDING
  :: d_step { line != 0 && line == lines_of[call] -> send() };
     d_step { wipe_half(); call = NEXT(call); line = 0 }
#else
  :: d_step {
       line != 0 && line == lines_of[call] ->
       wipe_half();
       send();
       call = NEXT(call);
       line = 0
     }
#endif
  :: d_step { SINCE(done, call) == 2 -> net_reads[done % 2] = false; done = NEXT(done) }
  od
}

#ifdef PLANT_WAITS_FOR_NO_RECEIVE
#define MAY_POST ENQUEUED(posted)
#else
#define MAY_POST (ENQUEUED(posted) && SINCE(call, posted) < 2)
#endif

inline post() {
  assert(!net_writes[posted % 2]);
  net_writes[posted % 2] = true;
  posted = NEXT(posted)
}

// A port posts what receives it may before it looks for messages.
proctype receiver(byte rank) {
  byte call, line;      // what comes next
  byte payload[LINES];  // of its message
  byte posted;          // receives
  bool net_writes[2];
  do
  :: d_step { MAY_POST -> post() }
  :: d_step {
       !MAY_POST && posted != call && line < lines_of[call] &&
         (line != 0 || nempty(net[1 - rank])) ->
       if
       :: line == 0 -> net[1 - rank]?payload[0], payload[1]
       :: else
       fi;
       store(TO_KERNEL(line), payload[line]);
       payload[line] = 0;
       line++;
       if
       :: line == lines_of[call] ->
          line = 0;
          net_writes[call % 2] = false;
          call = NEXT(call);
          if
          :: MAY_POST -> post()
          :: else
          fi
       :: else
       fi
     }
  od
}

init {
  byte rank;
  atomic {
    if
    :: true
    :: goes_ahead[0] = true
    :: goes_ahead[0] = true; goes_ahead[1] = true
    fi;
    for (rank : 0 .. RANKS - 1) {
      run part(rank, 0);
      run part(rank, 1);
      run sender(rank);
      run receiver(rank)
    }
  }
}
