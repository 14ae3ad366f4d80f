// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Lines with flags (LL): inboxes of two halves, the flag of a call, its beginning again, the wipe.
//
// Models: core/device/inbox_lines.h (begin, wipe_other_half, finish), and what pushes and takes
// lines: core/device/one_shot_all_reduce.h, core/device/one_shot_blocks.h,
// core/device/output_agreement.h; core/device/flagged_line.h, core/model/direct_peers.h. The halves
// and the rule that every rank waits for every other one in every call are also those of
// core/device/host/host_one_shot.h, whose counter of 64 bits does not begin again.
//
// Calls are of several kinds, of one line and of two, in any order and without end. In some every
// rank has a payload for every other, in one the root alone has (a broadcast): then the others'
// header lines are the acknowledgement.
//
// Holds:
//  - a reader takes lines of its own call alone, also after flags have begun again;
//  - no line is overwritten, nor wiped, before it was read;
//  - no rank waits for ever.
//
// Stores are not ordered: the two words of a line arrive in any order, and what a rank wipes in its
// own memory waits in a buffer until the fence. Three ranks (RANKS=3) are tried with header lines
// of one word alone (LINES=1, WORDS=1): what they add is who waits for whom.
//
// Planted mistakes, and what they are found by:
// PLANT_NO_WIPE: an assertion
// PLANT_WIPES_ONE_HALF: an assertion
// PLANT_WIPES_AFTER_PUSHING: an assertion
// PLANT_WIPES_WITHOUT_FENCE: an assertion
// PLANT_ODD_PERIOD: an assertion
// PLANT_ONE_HALF: an assertion
// PLANT_LOOKS_AT_ONE_WORD: an assertion
// PLANT_KIND_KEEPS_FLAG: an assertion
// PLANT_ROOT_WAITS_FOR_NOBODY: an assertion
// PLANT_ACKNOWLEDGES_ROOT_ALONE: an assertion
// PLANT_PAYLOAD_WHERE_FLAGS_ARE: an assertion

#ifndef RANKS
#define RANKS 2
#endif
#ifndef WORDS
#define WORDS 2
#endif
#ifndef LINES
#define LINES 2  // the header line, and one of payload
#endif
#define kRoot 0

// The checker tells calls apart by their number modulo kCalls, which is more than a period.
#ifdef PLANT_ODD_PERIOD
#define kPeriod 5
#define kCalls 20
#else
#define kPeriod 4
#define kCalls 8
#endif

mtype = { all_reduce_short, all_reduce_long, broadcast };
mtype kind[4];  // of the latest calls, which the ranks agree on
byte begun;     // calls that some rank has begun

// word[PLACE(...)]: of rank `to`'s inbox of lines from rank `from`.
typedef Word {
  byte flag;
  byte call;  // what its payload tells
  bool unread;
};
Word word[RANKS * RANKS * 2 * LINES * WORDS];
#define PLACE(to, from, half, line, w) \
  (((((to) * RANKS + (from)) * 2 + (half)) * LINES + (line)) * WORDS + (w))

#define TO_PEER(w) word[PLACE(peer, rank, half, line, w)]
#define FROM_PEER(w) word[PLACE(rank, peer, half, line, w)]

// Each rank's store buffer holds the wipes of the lines below this one; they leave it from behind.
byte buffered[RANKS];
byte buffered_half[RANKS];

#define WIPED(w) \
  word[PLACE(rank, buffered[rank] / LINES, buffered_half[rank], buffered[rank] % LINES, w)]

proctype stores(byte rank) {
  byte w;
end:
  do
  :: atomic {
      buffered[rank] > 0 ->
      buffered[rank]--;
      w = 0;
      do
      :: w == WORDS -> break
      :: else ->
         assert(!WIPED(w).unread);
         WIPED(w).flag = 0;
         WIPED(w).call = 0;
         w++
      od;
      w = 0
    }
  od
}

inline wipe_other_half() {
  atomic { buffered[rank] == 0 -> buffered[rank] = RANKS * LINES; buffered_half[rank] = 1 - half };
#ifndef PLANT_WIPES_WITHOUT_FENCE
  buffered[rank] == 0
#endif
}

#ifdef PLANT_WIPES_ONE_HALF
#define WIPE_DUE (flag + 1 == kPeriod)
#else
#define WIPE_DUE (flag + 1 >= kPeriod)
#endif

// Whether rank `from` has a payload for `to` in this call, and a header.
#define HAS_PAYLOAD(from) (mine == all_reduce_long || (mine == broadcast && (from) == kRoot))
#if defined(PLANT_ACKNOWLEDGES_ROOT_ALONE)
#define HAS_HEADER(from, to) (mine != broadcast || (from) == kRoot || (to) == kRoot)
#elif defined(PLANT_ROOT_WAITS_FOR_NOBODY)
#define HAS_HEADER(from, to) (mine != broadcast || (from) == kRoot)
#else
#define HAS_HEADER(from, to) true
#endif
#define HAS_LINE(from, to, line) \
  ((from) != (to) && HAS_HEADER(from, to) && ((line) == 0 || HAS_PAYLOAD(from)))

inline store_word(w) {
  atomic {
    assert(!TO_PEER(w).unread);
    TO_PEER(w).flag = flag;
#ifdef PLANT_PAYLOAD_WHERE_FLAGS_ARE
    if
    :: mine == broadcast && line == 1 ->
       select(any : 1 .. 2);
       TO_PEER(w).flag = any
    :: else
    fi;
#endif
    TO_PEER(w).call = call;
    TO_PEER(w).unread = true
  }
}

inline push() {
#if WORDS == 1
  store_word(0)
#else
  if
  :: store_word(0); store_word(1)
  :: store_word(1); store_word(0)
  fi
#endif
}

#define FLAG_IN(w) (FROM_PEER(w).flag == flag)
#if defined(PLANT_LOOKS_AT_ONE_WORD)
#define HAS_COME FLAG_IN(0)
#elif defined(PLANT_PAYLOAD_WHERE_FLAGS_ARE)
#define HAS_COME \
  (mine == broadcast && line == 1 -> FROM_PEER(0).unread && FROM_PEER(WORDS - 1).unread : \
                                     FLAG_IN(0) && FLAG_IN(WORDS - 1))
#else
#define HAS_COME (FLAG_IN(0) && FLAG_IN(WORDS - 1))
#endif

inline take() {
  atomic {
    HAS_COME ->
    assert(FROM_PEER(0).call == call);
    assert(FROM_PEER(WORDS - 1).call == call);
    FROM_PEER(0).unread = false;
    FROM_PEER(WORDS - 1).unread = false
  }
}

proctype member(byte rank) {
  byte position, call, flag, half, peer, line;
  mtype mine;
#ifdef PLANT_PAYLOAD_WHERE_FLAGS_ARE
  byte any;
#endif
end:
  do
  :: atomic {
      if
      :: call == begun ->
         if
         :: mine = all_reduce_short
#if LINES > 1
         :: mine = all_reduce_long
#endif
         :: mine = broadcast
         fi;
         kind[call % 4] = mine;
         kind[(call + 2) % 4] = 0;
         begun = (begun + 1) % kCalls
      :: else -> mine = kind[call % 4]
      fi;
      flag = position + 1;
#ifdef PLANT_ONE_HALF
      half = 0
#else
      half = position % 2
#endif
    };
#if !defined(PLANT_NO_WIPE) && !defined(PLANT_WIPES_AFTER_PUSHING)
    if
    :: WIPE_DUE -> wipe_other_half()
    :: else
    fi;
#endif
    for (line : 0 .. LINES - 1) {
      for (peer : 0 .. RANKS - 1) {
        if
        :: HAS_LINE(rank, peer, line) -> push()
        :: else
        fi
      }
    }
#ifdef PLANT_WIPES_AFTER_PUSHING
    if
    :: WIPE_DUE -> wipe_other_half()
    :: else
    fi;
#endif
    for (line : 0 .. LINES - 1) {
      for (peer : 0 .. RANKS - 1) {
        if
        :: HAS_LINE(peer, rank, line) -> take()
        :: else
        fi
      }
    }
    atomic {
#ifdef PLANT_KIND_KEEPS_FLAG
      if
      :: mine != broadcast -> position = (position + 1 == kPeriod -> 0 : position + 1)
      :: else
      fi;
#else
      position = (position + 1 == kPeriod -> 0 : position + 1);
#endif
      call = (call + 1) % kCalls;
      peer = 0; line = 0; flag = 0; half = 0; mine = 0;
#ifdef PLANT_PAYLOAD_WHERE_FLAGS_ARE
      any = 0
#endif
    }
  od
}

init {
  byte rank;
  atomic {
    for (rank : 0 .. RANKS - 1) {
      run member(rank);
      run stores(rank)
    }
  }
}
