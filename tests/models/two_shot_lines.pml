// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Exchanges by lines of LL128 between two halves of inboxes: calls of one exchange, of two, and of
// several pieces of one or of two.
//
// Models: core/device/wide_exchanges.h, core/device/two_shot_ll128.h (run, scatter, reduce,
// push_own, gather), core/device/one_shot_ll128.h, core/device/rooted_ll128.h.
//
// Each rank's kernel has two gangs: the first has the header of each exchange, the other a pair of
// payload of each range. Calls are of several kinds, in any order and without end; in one of them
// rank 0 alone has a range with payload, and in one all payload goes from one rank to the other, by
// turns from either: a broadcast, or a reduce. A kernel begins when the one before it in its stream has
// ended. A line arrives whole, as the device keeps it (tests/gpu/litmus.cu, "ll128").
//
// Holds:
//  - no line is overwritten before it was taken;
//  - no rank waits for ever.
//
// Planted mistakes, and what they are found by:
// PLANT_ONE_HALF: an assertion
// PLANT_SECOND_LACKS_HEADER: an assertion
// PLANT_PUSHES_BEFORE_TAKING: an assertion
// PLANT_PIECES_CHANGE_GANGS: an assertion
// PLANT_LAST_BLOCK_LACKS_PAIRS: an assertion
// PLANT_ONE_WAY_LACKS_HEADER: an assertion

#define RANKS 2
#define kGangs 2
#define kCalls 4       // calls are told apart by their number modulo this
#define kExchanges 4   // and exchanges

mtype = { one_shot, one_way, blocks, two_shot_short, two_pieces };
mtype kind[kCalls];  // which the ranks agree on
byte begun;          // calls that some rank has begun

byte call_of[RANKS];   // the rank's stream has ended those before
byte position[RANKS];  // exchanges of those
byte ended[RANKS];     // gangs of this call

// line[PLACE(...)]: of rank `to`'s inbox of lines from rank `from`.
typedef Line {
  byte exchange;
  bool unread;
};
Line line[RANKS * RANKS * 2 * kGangs];
#define PLACE(to, from, half, pair) ((((to) * RANKS + (from)) * 2 + (half)) * kGangs + (pair))

#ifdef PLANT_ONE_HALF
#define HALF(exchange) 0
#else
#define HALF(exchange) ((exchange) % 2)
#endif

// Whether rank `from` writes that pair to rank `to`. Rank 0's range alone has payload in a short
// call: what others send in the first exchange is of its receiver's range, in the second of its
// sender's.
#ifdef PLANT_SECOND_LACKS_HEADER
#define HAS_HEADER(from, second) (!(second))
#else
#ifdef PLANT_ONE_WAY_LACKS_HEADER
#define HAS_HEADER(from, second) IS_SENDER(from)
#else
#define HAS_HEADER(from, second) true
#endif
#endif
#define IS_SENDER(from) (mine != one_way || (from) == call % 2)
#ifdef PLANT_LAST_BLOCK_LACKS_PAIRS
#define IS_LACKING (mine == blocks && piece == 1)
#else
#define IS_LACKING false
#endif
#define HAS_PAYLOAD(from, to, second) \
  (!IS_LACKING && IS_SENDER(from) && MAY_HAVE_PAYLOAD(from, to, second))
#define MAY_HAVE_PAYLOAD(from, to, second) \
  (mine != two_shot_short || ((second) && (from) == 0) || (!(second) && (to) == 0))
#define HAS_PAIR(from, to, second) \
  ((from) != (to) && \
   ((pair == 0 && HAS_HEADER(from, second)) || (pair != 0 && HAS_PAYLOAD(from, to, second))))

#define PEER (1 - rank)
#define TO_PEER(which) line[PLACE(PEER, rank, HALF(which), pair)]
#define FROM_PEER(which) line[PLACE(rank, PEER, HALF(which), pair)]

inline push(which, second) {
  if
  :: atomic {
      HAS_PAIR(rank, PEER, second) ->
      assert(!TO_PEER(which).unread);
      TO_PEER(which).exchange = which;
      TO_PEER(which).unread = true
    }
  :: else
  fi
}

inline take(which, second) {
  if
  :: HAS_PAIR(PEER, rank, second) ->
     atomic {
       FROM_PEER(which).unread && FROM_PEER(which).exchange == which ->
       FROM_PEER(which).unread = false;
       FROM_PEER(which).exchange = 0
     }
  :: else
  fi
}

#define NEXT(exchange) (((exchange) + 1) % kExchanges)

proctype gang(byte rank; byte number) {
  byte call, next, pair, piece;
  mtype mine;
end:
  do
  :: atomic {
      call_of[rank] == call ->
      if
      :: call == begun ->
         if
         :: mine = one_shot
         :: mine = one_way
         :: mine = blocks
         :: mine = two_shot_short
         :: mine = two_pieces
         fi;
         kind[call] = mine;
         kind[(call + 2) % kCalls] = 0;
         begun = (begun + 1) % kCalls
      :: else -> mine = kind[call]
      fi;
      next = position[rank]
    };
    piece = 0;
    do
    :: pair = number;
#ifdef PLANT_PIECES_CHANGE_GANGS
       if
       :: piece == 1 && rank == 0 -> pair = 1 - number
       :: else
       fi;
#endif
       push(next, false);
       if
       :: mine != two_shot_short && mine != two_pieces -> take(next, false); next = NEXT(next)
       :: else ->
#ifdef PLANT_PUSHES_BEFORE_TAKING
          push(NEXT(next), true);
          take(next, false);
#else
          take(next, false);
          push(NEXT(next), true);
#endif
          take(NEXT(next), true);
          next = NEXT(NEXT(next))
       fi;
       piece++;
       if
       :: (mine == two_pieces || mine == blocks) && piece == 1
       :: else -> break
       fi
    od;
    atomic {
      ended[rank]++;
      if
      :: ended[rank] == kGangs ->
         ended[rank] = 0;
         position[rank] = next;
         call_of[rank] = (call_of[rank] + 1) % kCalls
      :: else
      fi;
      call = (call + 1) % kCalls;
      next = 0;
      pair = 0; piece = 0; mine = 0
    }
  od
}

init {
  byte rank;
  atomic {
    for (rank : 0 .. RANKS - 1) {
      run gang(rank, 0);
      run gang(rank, 1)
    }
  }
}
