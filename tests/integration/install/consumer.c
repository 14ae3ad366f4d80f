/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/* A program of somebody who has installed Weft: two ranks in one thread add their numbers. Plain
 * C11, pkg-config's flags, nothing of Weft's tree. */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { RANKS = 2, COUNT = 1000 };

static weft_context* context;

static void must(weft_result result, const char* doing) {
  char text[512];
  if (result == WEFT_OK) return;
  weft_last_error(context, text, sizeof text);
  fprintf(stderr, "%s: %s: %s\n", doing, weft_result_name(result), text);
  exit(1);
}

int main(void) {
  static float numbers[RANKS][COUNT];
  weft_comm* comms[RANKS];
  weft_stream* stream;
  char pair[256];
  int rank, i;

  must(weft_context_create(NULL, &context), "create a context");
  must(weft_comm_init_all(context, NULL, RANKS, comms), "make a communicator");
  must(weft_stream_create(context, &stream), "create a stream");
  for (rank = 0; rank < RANKS; ++rank) {
    for (i = 0; i < COUNT; ++i)
      numbers[rank][i] = (float)(i * (rank + 1));
  }
  must(weft_group_start(context), "start a group");
  for (rank = 0; rank < RANKS; ++rank) {
    must(weft_all_reduce(numbers[rank], numbers[rank], COUNT, WEFT_FLOAT32, WEFT_SUM, comms[rank],
                         stream),
         "all-reduce");
  }
  must(weft_group_end(context), "end the group");
  must(weft_stream_synchronize(stream), "synchronize");
  for (rank = 0; rank < RANKS; ++rank) {
    for (i = 0; i < COUNT; ++i) {
      if (numbers[rank][i] != (float)(3 * i)) {
        fprintf(stderr, "element %d of rank %d is %g\n", i, rank, (double)numbers[rank][i]);
        return 1;
      }
    }
  }
  weft_comm_describe_pair(comms[0], 0, 1, pair, sizeof pair);
  printf("weft %s added over %s\n", weft_version(), pair);
  for (rank = 0; rank < RANKS; ++rank)
    must(weft_comm_destroy(comms[rank]), "destroy");
  must(weft_stream_destroy(stream), "destroy the stream");
  must(weft_context_destroy(context), "destroy the context");
  return 0;
}
