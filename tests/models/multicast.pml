// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// An all-reduce by multicast: what ranks stage in memory of their own, one of them combines over
// all and stores to all, and each takes out again, by parts of a rank that do not wait for each
// other within a call.
//
// Models: core/device/multicast_call.h (run, meet, stage, combine, take_out), core/model/multicast.h.
// Of the exchanges by which ranks meet: tests/models/two_shot.pml.
//
// Two ranks of two parts. Calls are of two kinds, in any order and without end: of one piece by one
// part, of two pieces by two. Each rank has two places for each range: a part alone takes both, of
// two each has its own. All parts of a rank end before its next call begins, which the device sees
// to. All-gathers and reduce-scatters touch less, at the same times.
//
// Holds:
//  - what is combined was staged by all ranks for this very piece;
//  - what is taken out was stored for this very piece, and nothing is staged over it before;
//  - nobody waits for ever.
//
// A header is stored with release and loaded with acquire, so what was staged or stored is there
// before it.
//
// Planted mistakes, and what they are found by:
// PLANT_NO_FIRST_MEETING: an assertion
// PLANT_NO_SECOND_MEETING: an assertion
// PLANT_POSTS_BEFORE_STAGING: an assertion
// PLANT_POSTS_BEFORE_STORING: an assertion
// PLANT_PLACES_MOVE_BETWEEN_PIECES: an assertion
// PLANT_NEXT_CALL_BEFORE_ALL_PARTS_END: an assertion

// Told apart by their number modulo so many, which is more than are under way. The first is 0.
#define kExchanges 4
#define kCalls 3

#define kTaken 0
#define kStaged 1
#define kStored 2

typedef Word {
  byte state;
  byte exchange;  // at which it was staged
};
Word word[8];    // WORD(...): in the memory of a rank
byte header[8];  // by HEADER(...): number and 1; 0 once seen, as no later one is below it
#define WORD(whose, range, at) word[((whose) * 2 + (range)) * 2 + (at)]
#define HEADER(to, half, part) header[((to) * 2 + (half)) * 2 + (part)]

byte ended[4];  // calls, by PART(...)
#define PART(rank, part) ((rank) * 2 + (part))

// Of the latest calls, which the ranks agree on: 1 piece or 2, 1 part or 2.
byte pieces_of[kCalls], parts_of[kCalls];
byte begun;

#ifdef PLANT_PLACES_MOVE_BETWEEN_PIECES
#define OWN_PLACE ((part + piece) % 2)
#else
#define OWN_PLACE part
#endif
#define HAS(at) (parts == 1 || (at) == OWN_PLACE)

inline stage_one(range, at) {
  if
  :: HAS(at) ->
     assert(WORD(rank, range, at).state == kTaken);
     WORD(rank, range, at).state = kStaged;
     WORD(rank, range, at).exchange = e
  :: else
  fi
}
inline stage() {
  atomic { stage_one(0, 0); stage_one(0, 1); stage_one(1, 0); stage_one(1, 1) }
}
// Of both ranks, which a switch does one after the other.
inline combine_one(whose, at) {
  if
  :: HAS(at) ->
     assert(WORD(whose, rank, at).state == kStaged && WORD(whose, rank, at).exchange == first);
     WORD(whose, rank, at).state = kStored
  :: else
  fi
}
inline combine_of(whose) {
  atomic { combine_one(whose, 0); combine_one(whose, 1) }
}
inline take_one(range, at) {
  if
  :: HAS(at) ->
     assert(WORD(rank, range, at).state == kStored && WORD(rank, range, at).exchange == first);
     WORD(rank, range, at).state = kTaken;
     WORD(rank, range, at).exchange = 0
  :: else
  fi
}
inline take_out() {
  atomic { take_one(0, 0); take_one(0, 1); take_one(1, 0); take_one(1, 1) }
}
inline post() { HEADER(1 - rank, e % 2, part) = e + 1 }
inline await() {
  atomic {
    HEADER(rank, e % 2, part) == e + 1 ->
    HEADER(rank, e % 2, part) = 0;
    e = (e + 1) % kExchanges
  }
}

proctype member(byte rank; byte part) {
  byte call, e, first, piece, pieces, parts;
end:
  do
  :: atomic {
#ifndef PLANT_NEXT_CALL_BEFORE_ALL_PARTS_END
      ended[PART(rank, 1 - part)] != (call + kCalls - 1) % kCalls ->
#endif
      if
      :: call == begun ->
         if
         :: pieces = 1; parts = 1
         :: pieces = 2; parts = 2
         fi;
         pieces_of[call] = pieces;
         parts_of[call] = parts;
         pieces_of[(call + 1) % kCalls] = 0;
         parts_of[(call + 1) % kCalls] = 0;
         begun = (begun + 1) % kCalls
      :: else ->
         pieces = pieces_of[call];
         parts = parts_of[call]
      fi;
      piece = 0
    };
    do
    :: part < parts && piece < pieces ->
       first = e;
#ifdef PLANT_POSTS_BEFORE_STAGING
       post();
       stage();
#else
       stage();
#ifndef PLANT_NO_FIRST_MEETING
       post();
#endif
#endif
#ifdef PLANT_NO_FIRST_MEETING
       e = (e + 1) % kExchanges;
#else
       await();
#endif
#ifdef PLANT_POSTS_BEFORE_STORING
       post();
#endif
       combine_of(rank);
       combine_of(1 - rank);
#ifdef PLANT_NO_SECOND_MEETING
       e = (e + 1) % kExchanges;
#else
#ifndef PLANT_POSTS_BEFORE_STORING
       post();
#endif
       await();
#endif
       take_out();
       piece++
    :: else -> break
    od;
    atomic {
      // The last part of a call tells the number to those that had none of it.
      e = (part < parts -> e : (e + 2 * pieces) % kExchanges);
      call = (call + 1) % kCalls;
      ended[PART(rank, part)] = call;
      piece = 0; first = 0; pieces = 0; parts = 0
    }
  od
}

init {
  atomic {
    run member(0, 0);
    run member(0, 1);
    run member(1, 0);
    run member(1, 1)
  }
}
