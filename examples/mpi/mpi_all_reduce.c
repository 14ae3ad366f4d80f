/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/* A program of MPI that lets Weft add: rank 0 makes a unique id, MPI carries its bytes to the
 * others. Neither WEFT_ROOT nor WEFT_SECRET is needed, on however many hosts the ranks are. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#include <weft/weft.h>

enum { kCount = 1000 };

static weft_context* context;

static void must(weft_result result, const char* doing) {
  char text[1024];
  if (result == WEFT_OK) return;
  weft_last_error(context, text, sizeof(text));
  fprintf(stderr, "%s: %s: %s\n", doing, weft_result_name(result), text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  static float numbers[kCount];
  weft_unique_id id = {{0}};
  weft_comm* comm = NULL;
  weft_stream* stream = NULL;
  int rank = 0;
  int ranks = 0;
  int i;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  must(weft_context_create(NULL, &context), "create a context");
  if (rank == 0) must(weft_get_unique_id(context, &id), "make a unique id");
  MPI_Bcast(id.bytes, (int)sizeof(id.bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  must(weft_comm_init_rank(context, NULL, (uint32_t)ranks, &id, (uint32_t)rank, &comm), "join");
  must(weft_stream_create(context, &stream), "create a stream");

  for (i = 0; i < kCount; ++i)
    numbers[i] = (float)((i + 1) * (rank + 1));
  must(weft_all_reduce(numbers, numbers, kCount, WEFT_FLOAT32, WEFT_SUM, comm, stream),
       "all-reduce");
  must(weft_stream_synchronize(stream), "wait for the all-reduce");
  for (i = 0; i < kCount; ++i) {
    if (numbers[i] != (float)(i + 1) * (float)ranks * (float)(ranks + 1) / 2) {
      fprintf(stderr, "rank %d: element %d is %g\n", rank, i, (double)numbers[i]);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  printf("rank %d of %d: the sums begin with %g\n", rank, ranks, (double)numbers[0]);

  must(weft_comm_destroy(comm), "destroy the communicator");
  must(weft_stream_destroy(stream), "destroy the stream");
  must(weft_context_destroy(context), "destroy the context");
  MPI_Finalize();
  return 0;
}
