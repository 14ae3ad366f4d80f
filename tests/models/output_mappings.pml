// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Outputs that ranks of other processes have mapped: one owner, a rank that writes into its output,
// and one that does not, but has to have it mapped as well; their threads that make calls, and
// those in the background.
//
// Models: core/comm/output_mappings.h, core/device/shared_place.h, and of
// core/device/output_entry.h when `ended` is stored. That all ranks branch alike is proven
// in output_agreement.pml.
//
// Between calls the owner's program may free its output and make another at the same address; the
// owner's background may want room at any time; a rank may be unable to map; a letter may be lost,
// so those that have not answered are asked again, and answers come twice. Holds:
//  - a rank that is offered a place has it mapped, and of that generation;
//  - nothing is unmapped while a kernel may write there, even if the owner revokes it too early
//    (FAULTY_OWNER, where no more than this is asked for);
//  - what is written is found at the owner's address: memory of before gets nothing;
//  - one mapping after another comes and goes; nobody waits for ever, though no call be made any
//    more.
//
// Planted mistakes, and what they are found by:
// PLANT_OFFERS_WHEN_ONE_HAS_IT: an assertion
// PLANT_TAKES_REFUSAL_FOR_MAPPED: an assertion
// PLANT_GOES_BY_ADDRESS: an assertion
// PLANT_REVOKES_DURING_CALL: an assertion
// PLANT_UNMAPS_UNDER_KERNEL: an assertion
// PLANT_REUSES_WHEN_ONE_HAS_RETURNED: an assertion
// PLANT_ASKS_ONCE: a deadlock
// PLANT_COUNTS_ANSWERS: an assertion

#if defined(PLANT_UNMAPS_UNDER_KERNEL) && !defined(FAULTY_OWNER)
#define FAULTY_OWNER 1
#endif
#ifndef FAULTY_OWNER
#define FAULTY_OWNER 0
#endif

#if FAULTY_OWNER || defined(PLANT_REVOKES_DURING_CALL)
#define MAY_REVOKE true
#else
#define MAY_REVOKE !in_call
#endif

#define OTHERS 2
#define WRITER 0
#define kPieces 2  // numbers of pieces: that of the mapping, and any other
#define kOtherPiece kPieces  // what a descriptor of before may stand for
#define kGenerations 2

byte here;     // the number of the piece at the address of the owner's output
bool landed;   // there is what was written in this call
bool in_call;  // the owner's, with an offer

// The owner's mapping, all under its mutex.
mtype = { Free, Shared, Mapped, Revoked };
mtype state = Free;
byte generation = 1;
byte piece;
bool awaited[OTHERS];
#ifdef PLANT_COUNTS_ANSWERS
byte answers_due;
#endif
bool refused;

// What others have mapped. `known`: may be looked up by kernels; `mapped`: until it is unmapped.
byte known[OTHERS];
bool mapped[OTHERS];
byte mapped_piece[OTHERS];
bool writing;

mtype = { share, revoke, taken, not_taken, returned };
chan letter[OTHERS] = [2] of { mtype, byte, byte };  // what, generation, piece
chan answer = [4] of { mtype, byte, byte };          // what, generation, rank

chan offer = [1] of { byte };  // a generation, or 0
chan tail = [1] of { bool };   // the step that the writer has stored

// Once a letter is lost, or one is written once more though none is.
bool is_troubled;
bool lost[OTHERS];  // a letter to that rank, or its answer: known to nobody, but told by time

inline write_to(to, what, number) {
  if
  :: letter[to]!what(generation, number)
  :: !is_troubled -> is_troubled = true; lost[to] = true
  fi
}

// Also while an answer is on its way.
#define ASKS_AGAIN(to) (awaited[to] && empty(letter[to]) && (lost[to] || !is_troubled))

inline ask_again(to) {
  is_troubled = true; lost[to] = false;
  if
  :: state == Shared -> letter[to]!share(generation, piece)
  :: else -> letter[to]!revoke(generation, 0)
  fi
}

inline ask_all(what, number) {
  for (to : 0 .. OTHERS - 1) {
    awaited[to] = true;
    write_to(to, what, number)
  }
  to = 0;
#ifdef PLANT_COUNTS_ANSWERS
  answers_due = OTHERS;
#endif
}

inline say(what) {
  if
  :: answer!what(about, rank)
  :: !is_troubled -> is_troubled = true; lost[rank] = true
  fi
}

#ifdef PLANT_COUNTS_ANSWERS
#define ALL_HAVE (answers_due == 0)
#else
#define ALL_HAVE (!awaited[0] && !awaited[1])
#endif

proctype owner_calls() {
  byte offered;
  do
  :: break     // the program makes no more calls
  :: atomic {  // the program makes its output anew, with a number that nobody knows; if that of the
               // mapping is gone, one more changes nothing
       !in_call;
       if
       :: true
       :: state == Free || here == piece -> here = (here + 1) % kPieces
       fi
     };
     atomic {
       landed = false;
       if
#ifdef PLANT_GOES_BY_ADDRESS
       :: state == Mapped
#else
       :: state == Mapped && piece == here
#endif
          -> offered = generation; in_call = true
       :: else -> offered = 0
       fi
     };
     offer!offered;
     tail?_;
     atomic {
#if !FAULTY_OWNER
       assert(offered == 0 || landed);
#endif
       in_call = false; landed = false;
       offered = 0
     }
  od
}

proctype owner_background() {
  mtype what;
  byte about;
  byte to;
  // No end: mappings come and go.
  do
  :: atomic {
       state == Free ->
       state = Shared; piece = here;
       ask_all(share, piece)
     }
  :: atomic {  // the piece is gone, or there is no room
       state == Mapped && MAY_REVOKE ->
       state = Revoked;
       ask_all(revoke, 0)
     }
#ifndef PLANT_ASKS_ONCE
  :: atomic { ASKS_AGAIN(0) -> ask_again(0) }
  :: atomic { ASKS_AGAIN(1) -> ask_again(1) }
#endif
  :: atomic {
       answer?what(about, to) ->
       if
       :: about == generation && (state == Shared && what != returned ||
                                  state == Revoked && what == returned) ->
          awaited[to] = false;
#ifdef PLANT_COUNTS_ANSWERS
          answers_due--;
#endif
#ifndef PLANT_TAKES_REFUSAL_FOR_MAPPED
          refused = refused || what == not_taken;
#endif
          if
#ifdef PLANT_OFFERS_WHEN_ONE_HAS_IT
          :: state == Shared && !refused && !ALL_HAVE -> state = Mapped
#endif
          :: state == Shared && ALL_HAVE && !refused -> state = Mapped
          :: state == Shared && ALL_HAVE && refused ->
             state = Revoked;
             ask_all(revoke, 0)
#ifdef PLANT_REUSES_WHEN_ONE_HAS_RETURNED
          :: state == Revoked && !ALL_HAVE ->
#else
          :: state == Revoked && ALL_HAVE ->
#endif
             state = Free; piece = 0; refused = false;
             generation = generation % kGenerations + 1
          :: else
          fi
       :: else  // it was asked again
       fi;
       what = 0; about = 0; to = 0
     }
  od
}

proctype writer_calls() {
  byte offered;
end:
  do
  :: offer?offered;
     if
     :: offered != 0 ->
        atomic {
          writing = known[WRITER] == offered;  // its kernel has looked it up
#if !FAULTY_OWNER
          assert(writing)
#endif
        };
        // Stores take a while.
        atomic {
          if
          :: writing ->
             assert(mapped[WRITER]);
             landed = mapped_piece[WRITER] == here
          :: else
          fi
        };
        writing = false
     :: else
     fi;
     offered = 0;
     tail!true
  od
}

proctype other_background(byte rank) {
  mtype what;
  byte about;
  byte number;
end:
  do
  :: letter[rank]?what(about, number);
     if
     :: what == share && known[rank] != 0 ->
        atomic {
          assert(known[rank] == about);
          answer!taken(about, rank)
        }
     :: what == share && known[rank] == 0 ->
        atomic {
          assert(!mapped[rank]);
          if
          :: mapped[rank] = true; known[rank] = about;
             if
             :: state == Shared && generation == about -> mapped_piece[rank] = number
             :: else -> mapped_piece[rank] = kOtherPiece  // the owner has closed what it named
             fi;
             say(taken)
          :: say(not_taken)  // it cannot
          fi
        }
     :: what == revoke && known[rank] == about ->
        known[rank] = 0;
#ifndef PLANT_UNMAPS_UNDER_KERNEL
        rank != WRITER || !writing;
#endif
        atomic {
          mapped[rank] = false; mapped_piece[rank] = 0;
          say(returned)
        }
     :: what == revoke && known[rank] != about ->
        atomic { say(returned) }
     fi;
     atomic { what = 0; about = 0; number = 0 }
  od
}

init {
  byte rank;
  atomic {
    run owner_calls();
    run owner_background();
    run writer_calls();
    for (rank : 0 .. OTHERS - 1) {
      run other_background(rank)
    }
  }
}
