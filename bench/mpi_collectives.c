/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The peer's side of bench/compare: times an operation of MPI on floats the way `weft bench` times
 * its own (same elements, warm-up, a call at a time, out of place but where MPI has one buffer, the
 * slowest rank's mean), checks what came out and prints one JSON line.
 *
 * BYTES are those of the larger buffer, as nccl-tests counts: all that a rank gathers, or that it
 * scatters; what it sends where the buffers are equal.
 *
 * usage: mpi_collectives OPERATION BYTES ITERATIONS WARMUP
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum operation {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kSendrecv,
  kAllToAll,
  kGather,
  kScatter,
  kOperations
};

static const char* const kNames[kOperations] = {"all_reduce", "all_gather", "reduce_scatter",
                                                "broadcast",  "reduce",     "sendrecv",
                                                "all_to_all", "gather",     "scatter"};

static int rank, ranks;

static int sends_blocks(enum operation operation) {
  return operation == kReduceScatter || operation == kAllToAll || operation == kScatter;
}

static int receives_blocks(enum operation operation) {
  return operation == kAllGather || operation == kAllToAll || operation == kGather;
}

static void call(enum operation operation, const float* in, float* out, int count) {
  const int next = (rank + 1) % ranks;
  const int previous = (rank + ranks - 1) % ranks;
  switch (operation) {
    case kAllReduce:
      MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case kAllGather:
      MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case kReduceScatter:
      MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case kBroadcast:
      MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
      break;
    case kReduce:
      MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
      break;
    case kSendrecv:
      MPI_Sendrecv(in, count, MPI_FLOAT, next, 0, out, count, MPI_FLOAT, previous, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      break;
    case kAllToAll:
      MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case kGather:
      MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
      break;
    case kScatter:
      MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
      break;
    case kOperations:
      break;
  }
}

static double time_calls(enum operation operation, const float* in, float* out, int count,
                         int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i)
    call(operation, in, out, count);
  return MPI_Wtime() - begin;
}

static float element(int of_rank, long i) {
  return (float)((of_rank * 5 + i) % 16 - 8);
}

static float sum_over_ranks(long i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r)
    sum += element(r, i);
  return sum;
}

static float expected(enum operation operation, long count, long i) {
  switch (operation) {
    case kAllGather:
    case kGather:
      return element((int)(i / count), i % count);
    case kScatter:
      return element(0, rank * count + i);
    case kReduceScatter:
      return sum_over_ranks(rank * count + i);
    case kBroadcast:
      return element(0, i);
    case kSendrecv:
      return element((rank + ranks - 1) % ranks, i);
    case kAllToAll:
      return element((int)(i / count), rank * count + i % count);
    default:
      return sum_over_ranks(i);
  }
}

static int refuse(const char* program, const char* what) {
  if (rank == 0) {
    fprintf(stderr, "%s: %s\nusage: %s OPERATION BYTES ITERATIONS WARMUP\n", program, what,
            program);
  }
  MPI_Finalize();
  return 2;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 5) return refuse(argv[0], "four words are needed");
  enum operation operation = kAllReduce;
  while (operation < kOperations && strcmp(kNames[operation], argv[1]) != 0)
    ++operation;
  const long bytes = atol(argv[2]);
  const int iterations = atoi(argv[3]);
  const int warmup = atoi(argv[4]);
  if (operation == kOperations) return refuse(argv[0], "there is no such operation");
  if (iterations < 1 || warmup < 0) return refuse(argv[0], "ITERATIONS from 1, WARMUP from 0");
  const int blocks = sends_blocks(operation) || receives_blocks(operation) ? ranks : 1;
  const int count = (int)(bytes / (long)sizeof(float) / blocks);
  if (count < 1) return refuse(argv[0], "BYTES must hold an element, or one for each rank");
  const long in_count = (long)count * (sends_blocks(operation) ? ranks : 1);
  const long out_count = (long)count * (receives_blocks(operation) ? ranks : 1);
  float* in = malloc((size_t)in_count * sizeof(float));
  float* out = malloc((size_t)out_count * sizeof(float));
  if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  for (long i = 0; i < in_count; ++i)
    in[i] = element(rank, i);
  for (long i = 0; i < out_count; ++i)
    out[i] = operation == kBroadcast && rank == 0 ? element(0, i) : -100.0F;

  time_calls(operation, in, out, count, warmup);
  const double mine = time_calls(operation, in, out, count, iterations) / iterations * 1e6;
  double slowest = 0;
  MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  long wrong = 0;
  for (long i = 0; i < out_count && (rank == 0 || (operation != kReduce && operation != kGather));
       ++i)
    wrong += out[i] != expected(operation, count, i);
  if (wrong != 0) {
    fprintf(stderr, "rank %d: %ld wrong elements of %ld\n", rank, wrong, out_count);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = '\0';
  if (rank == 0) {
    printf(
        "{\"peer\":\"openmpi\",\"version\":\"%s\",\"operation\":\"%s\",\"ranks\":%d,"
        "\"bytes\":%ld,\"type\":\"float32\",\"in_place\":%s,\"iterations\":%d,"
        "\"time_us\":%.4f}\n",
        version, kNames[operation], ranks, (long)count * blocks * (long)sizeof(float),
        operation == kBroadcast ? "true" : "false", iterations, slowest);
  }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
