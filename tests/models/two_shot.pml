// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The two-shot all-reduce: rows of exchanges through two halves of an inbox, by parts of a rank
// that do not wait for each other within a call.
//
// Models: core/device/two_shot_all_reduce.h (run, scatter, reduce, gather, await_all, finish),
// core/model/two_shot.h.
//
// Two ranks of two parts. Calls are of two kinds, in any order and without end: of one piece by one
// part, of two pieces by two; a piece is two exchanges. A half has two places for payload: a
// part alone takes both, of two each has its own. All parts of a rank end before its next call
// begins, which the device sees to.
//
// Holds:
//  - a part takes payload of its own exchange alone;
//  - no payload is overwritten before it was taken;
//  - nobody waits for ever.
//
// A header is stored with release and loaded with acquire, so payload is there before it.
//
// Planted mistakes, and what they are found by:
// PLANT_ONE_HALF: an assertion
// PLANT_POSTS_BEFORE_WRITING: an assertion
// PLANT_POSTS_BEFORE_TAKING: an assertion
// PLANT_PLACES_MOVE_BETWEEN_PIECES: an assertion
// PLANT_NEXT_CALL_BEFORE_ALL_PARTS_END: an assertion

// Told apart by their number modulo so many, which is more than are under way. The first is 0.
#define kExchanges 4
#define kCalls 3

typedef Place {
  byte exchange;
  bool unread;
};
Place place[8];  // PLACE(...): of rank `to`'s inbox
byte header[8];  // the same by part: number and 1; 0 once seen, as no later one is below it
#define PLACE(to, half, at) (((to) * 2 + (half)) * 2 + (at))

byte ended[4];  // calls, by PART(...)
#define PART(rank, part) ((rank) * 2 + (part))

// Of the latest calls, which the ranks agree on: 1 piece or 2, 1 part or 2.
byte pieces_of[kCalls], parts_of[kCalls];
byte begun;

#ifdef PLANT_ONE_HALF
#define HALF(e) 0
#else
#define HALF(e) ((e) % 2)
#endif
#ifdef PLANT_PLACES_MOVE_BETWEEN_PIECES
#define OWN_PLACE ((part + piece) % 2)
#else
#define OWN_PLACE part
#endif
#define HAS(at) (parts == 1 || (at) == OWN_PLACE)
#define THERE(at) place[PLACE(1 - rank, HALF(e), at)]
#define HERE(at) place[PLACE(rank, HALF(taken), at)]

inline write_one(at) {
  if
  :: HAS(at) ->
     assert(!THERE(at).unread);
     THERE(at).exchange = e + 1;
     THERE(at).unread = true
  :: else
  fi
}
inline take_one(at) {
  if
  :: HAS(at) ->
     assert(HERE(at).unread && HERE(at).exchange == taken + 1);
     HERE(at).unread = false;
     HERE(at).exchange = 0
  :: else
  fi
}
inline write() {
  atomic { write_one(0); write_one(1) }
}
inline take() {
  atomic { take_one(0); take_one(1) }
}
inline post() { header[PLACE(1 - rank, HALF(e), part)] = e + 1 }
inline await() {
  atomic {
    header[PLACE(rank, HALF(e), part)] == e + 1 ->
    header[PLACE(rank, HALF(e), part)] = 0;
    taken = e;
    e = (e + 1) % kExchanges
  }
}

proctype member(byte rank; byte part) {
  byte call, e, taken, piece, pieces, parts;
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
#ifdef PLANT_POSTS_BEFORE_WRITING
       post();
       write();
#else
       write();
       post();
#endif
       await();
#ifdef PLANT_POSTS_BEFORE_TAKING
       write();
       post();
       take();
#else
       write();  // in the same loop as the taking, so it may come first
       take();
       post();
#endif
       await();
       atomic { take(); piece++ }
    :: else -> break
    od;
    atomic {
      // The last part of a call tells the number to those that had none of it.
      e = (part < parts -> e : (e + 2 * pieces) % kExchanges);
      call = (call + 1) % kCalls;
      ended[PART(rank, part)] = call;
      piece = 0; taken = 0; pieces = 0; parts = 0
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
