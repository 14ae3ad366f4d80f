// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls that may write straight into the outputs of other ranks: the offers by which ranks agree,
// and the steps of a ring that follow, whose payload lies in an output or in a slot.
//
// Models: core/device/output_agreement.h, core/model/output_table.h, and of
// core/device/bulk_walkers.h where payload lies and who waits for whom. That lines with
// flags arrive whole, and that two halves suffice for them, is proven in flagged_lines.pml; the
// FIFO of steps, in step_fifo.pml.
//
// In each call each rank's output may be open to the others or not, whatever it was before, and
// between calls the program may free it. Holds:
//  - all ranks of a call branch alike;
//  - into an output others write only while its rank is in the call, and only if it is open: not
//    before that rank has come, since it may be in use still, and not after it has left;
//  - what is read there, or in a slot, is the step of this call;
//  - no rank waits for ever.
//
// Planted mistakes, and what they are found by:
// PLANT_GOES_BY_OWN_OFFER: an assertion
// PLANT_TAKES_OFFERS_OF_NEIGHBOURS_ALONE: an assertion
// PLANT_KEEPS_LAST_OFFERS: an assertion
// PLANT_LEAVES_BEFORE_ITS_STEP: an assertion
// PLANT_POSTS_BEFORE_STORES_END: an assertion

#define RANKS 3
#define kCalls 4  // told apart

// offer[PLACE(...)]: of rank `to`'s inbox of lines from `from`, in the half of a call.
typedef Offer {
  byte flag;  // the call's number and one
  bool open;
};
Offer offer[RANKS * RANKS * 2];
#define PLACE(to, from, call) (((to) * RANKS + (from)) * 2 + (call) % 2)

bool inside[RANKS];  // between a rank's coming to a call and its end
bool open[RANKS];    // its output, of that call
byte output[RANKS];  // what the rank before has written there: the call's number and one
byte slot[RANKS];    // the same of the slot
byte way[kCalls];    // 0: nobody has branched, 1: by slots, 2: by outputs

chan tail[RANKS] = [1] of { byte };  // steps towards that rank

#define NEXT ((rank + 1) % RANKS)

inline agree() {
  all = open[rank];
  for (peer : 0 .. RANKS - 1) {
    if
    :: peer != rank ->
#if defined(PLANT_GOES_BY_OWN_OFFER)
       offer[PLACE(rank, peer, call)].flag == call + 1
#elif defined(PLANT_TAKES_OFFERS_OF_NEIGHBOURS_ALONE)
       offer[PLACE(rank, peer, call)].flag == call + 1;
       if
       :: peer == NEXT -> all = all && offer[PLACE(rank, peer, call)].open
       :: else
       fi
#elif defined(PLANT_KEEPS_LAST_OFFERS)
       all = all && offer[PLACE(rank, peer, call)].open
#else
       atomic {
         offer[PLACE(rank, peer, call)].flag == call + 1;
         all = all && offer[PLACE(rank, peer, call)].open;
         offer[PLACE(rank, peer, call)].open = false  // nobody looks again
       }
#endif
    :: else
    fi
  }
}

#define MAY_WRITE assert(!all || (inside[NEXT] && open[NEXT]))

proctype member(byte rank) {
  byte call, peer, got;
  bool all;
end:
  do
  :: atomic {
       inside[rank] = true;
       if
       :: open[rank] = true
       :: open[rank] = false
       fi
     };
     atomic {
       for (peer : 0 .. RANKS - 1) {
         if
         :: peer != rank ->
            offer[PLACE(peer, rank, call)].open = open[rank];
            offer[PLACE(peer, rank, call)].flag = call + 1
         :: else
         fi
       };
       peer = 0
     };
     agree();
     atomic {
       assert(way[call] == 0 || way[call] == 1 + all);
       way[call] = 1 + all;
       way[(call + 2) % kCalls] = 0
     };
     // A step to the next rank: stores that take a while, then the tail.
     MAY_WRITE;
#ifdef PLANT_POSTS_BEFORE_STORES_END
     tail[NEXT]!(call + 1);
#endif
     atomic {
       MAY_WRITE;
       if
       :: all -> output[NEXT] = call + 1
       :: else -> slot[NEXT] = call + 1
       fi
     };
#ifndef PLANT_POSTS_BEFORE_STORES_END
     tail[NEXT]!(call + 1);
#endif
#ifndef PLANT_LEAVES_BEFORE_ITS_STEP
     tail[rank]?got;
     assert(got == call + 1);
     assert((all -> output[rank] : slot[rank]) == call + 1);
#endif
     atomic {
       inside[rank] = false;
       open[rank] = false;
       output[rank] = 0;
       slot[rank] = 0;
#ifdef PLANT_LEAVES_BEFORE_ITS_STEP
     };
     tail[rank]?got;
     atomic {
#endif
       call = (call + 1) % kCalls;
       peer = 0; got = 0; all = false
     }
  od
}

init {
  byte rank;
  atomic {
    for (rank : 0 .. RANKS - 1) {
      run member(rank)
    }
  }
}
