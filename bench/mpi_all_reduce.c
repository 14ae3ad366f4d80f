/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The peer's side of bench/compare: times MPI_Allreduce of floats the way `weft bench all_reduce`
 * times its own (same sizes, warm-up, a call at a time, the slowest rank's mean) and prints one
 * JSON line a size.
 *
 * usage: mpi_all_reduce MIN_BYTES MAX_BYTES FACTOR ITERATIONS WARMUP
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double time_calls(const float* in, float* out, int count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) {
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  return MPI_Wtime() - begin;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 6) {
    if (rank == 0) fprintf(stderr, "usage: %s MIN MAX FACTOR ITERATIONS WARMUP\n", argv[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const long min = atol(argv[1]);
  const long max = atol(argv[2]);
  const long factor = atol(argv[3]);
  const int iterations = atoi(argv[4]);
  const int warmup = atoi(argv[5]);
  if (min < 4 || max < min || factor < 2 || iterations < 1 || warmup < 0) {
    if (rank == 0) fprintf(stderr, "%s: sizes from 4, MAX >= MIN, FACTOR >= 2\n", argv[0]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  float* in = malloc((size_t)max);
  float* out = malloc((size_t)max);
  if (in == NULL || out == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  for (int i = 0; i < length; ++i) {
    if (version[i] == ',' || version[i] == '\n') version[i] = '\0';
  }

  for (long bytes = min; bytes <= max; bytes *= factor) {
    const int count = (int)(bytes / (long)sizeof(float));
    for (int i = 0; i < count; ++i)
      in[i] = (float)((rank + i) % 16 - 8);
    time_calls(in, out, count, warmup);
    const double mine = time_calls(in, out, count, iterations) / iterations * 1e6;
    double slowest = 0;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    int wrong = 0;
    for (int i = 0; i < count; ++i) {
      float sum = 0;
      for (int r = 0; r < ranks; ++r)
        sum += (float)((r + i) % 16 - 8);
      wrong += out[i] != sum;
    }
    if (wrong != 0) {
      fprintf(stderr, "rank %d: %d wrong elements of %d\n", rank, wrong, count);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
      printf(
          "{\"peer\":\"openmpi\",\"version\":\"%s\",\"operation\":\"all_reduce\",\"ranks\":%d,"
          "\"bytes\":%ld,\"type\":\"float32\",\"in_place\":false,\"time_us\":%.4f}\n",
          version, ranks, (long)count * 4, slowest);
      fflush(stdout);
    }
  }
  free(in);
  free(out);
  MPI_Finalize();
  return 0;
}
