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
// owner's background may want room at any time; a rank may be unable to map. Holds:
//  - a rank that is offered a place has it mapped, and of that generation;
//  - nothing is unmapped while a kernel may write there, even if the owner revokes it too early
//    (FAULTY_OWNER, where no more than this is asked for);
//  - what is written is found at the owner's address: memory of before gets nothing;
//  - one mapping after another comes and goes; nobody waits for ever.
//
// Planted mistakes, and what they are found by:
// PLANT_OFFERS_WHEN_ONE_HAS_IT: an assertion
// PLANT_TAKES_REFUSAL_FOR_MAPPED: an assertion
// PLANT_GOES_BY_ADDRESS: an assertion
// PLANT_REVOKES_DURING_CALL: an assertion
// PLANT_UNMAPS_UNDER_KERNEL: an assertion
// PLANT_REUSES_WHEN_ONE_HAS_RETURNED: an assertion

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
#define kPieces 3  // numbers of pieces, told apart
#define kGenerations 2

byte here;     // the number of the piece at the address of the owner's output
bool landed;   // there is what was written in this call
bool in_call;  // the owner's, with an offer

// The owner's mapping, all under its mutex.
mtype = { Free, Shared, Mapped, Revoked };
mtype state = Free;
byte generation = 1;
byte piece;
byte awaited;
bool refused;

// What others have mapped. `known`: may be looked up by kernels; `mapped`: until it is unmapped.
byte known[OTHERS];
bool mapped[OTHERS];
byte mapped_piece[OTHERS];
bool writing;

mtype = { share, revoke, taken, not_taken, returned };
chan letter[OTHERS] = [2] of { mtype, byte, byte };  // what, generation, piece
chan answer = [4] of { mtype, byte };

chan offer = [1] of { byte };  // a generation, or 0
chan tail = [1] of { bool };   // the step that the writer has stored

proctype owner_calls() {
  byte offered;
end:
  do
  :: atomic {  // the program makes its output anew, with a number that nobody knows
       !in_call;
       if
       :: true
       :: here = (here + 1) % kPieces;
          if
          :: state != Free && here == piece -> here = (here + 1) % kPieces
          :: else
          fi
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
       in_call = false;
       offered = 0
     }
  od
}

proctype owner_background() {
  mtype what;
  byte about;
  byte to;
end:
  do
  :: atomic {
       state == Free ->
       state = Shared; piece = here; awaited = OTHERS; refused = false;
       for (to : 0 .. OTHERS - 1) {
         letter[to]!share(generation, piece)
       }
     }
  :: atomic {  // the piece is gone, or there is no room
       state == Mapped && MAY_REVOKE ->
       state = Revoked; awaited = OTHERS;
       for (to : 0 .. OTHERS - 1) {
         letter[to]!revoke(generation, 0)
       }
     }
  :: atomic {
       answer?what(about) ->
       assert(about == generation);
       awaited--;
       if
       :: what == not_taken ->
#ifndef PLANT_TAKES_REFUSAL_FOR_MAPPED
          refused = true
#endif
       :: else
       fi;
       if
#ifdef PLANT_OFFERS_WHEN_ONE_HAS_IT
       :: state == Shared && what == taken && !refused && awaited == 1 -> state = Mapped
#endif
       :: state == Shared && awaited == 0 && !refused -> state = Mapped
       :: state == Shared && awaited == 0 && refused ->
          state = Revoked; awaited = OTHERS;
          for (to : 0 .. OTHERS - 1) {
            letter[to]!revoke(generation, 0)
          }
#ifdef PLANT_REUSES_WHEN_ONE_HAS_RETURNED
       :: state == Revoked && awaited == 1 ->
#else
       :: state == Revoked && awaited == 0 ->
#endif
          state = Free; generation = generation % kGenerations + 1
       :: else
       fi;
       what = 0; about = 0
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
     :: what == share ->
        atomic {
          assert(!mapped[rank]);
          if
          :: mapped[rank] = true; mapped_piece[rank] = number; known[rank] = about;
             answer!taken(about)
          :: answer!not_taken(about)  // it cannot
          fi
        }
     :: what == revoke ->
        known[rank] = 0;
#ifndef PLANT_UNMAPS_UNDER_KERNEL
        rank != WRITER || !writing;
#endif
        atomic {
          mapped[rank] = false; mapped_piece[rank] = 0;
          answer!returned(about)
        }
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
