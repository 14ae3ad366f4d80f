/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The vocabulary shared by the application API (weft.h) and the plugin ABI (plugin_api/): result
 * codes, element types and reduction operations. Plain C11; values never change meaning.
 */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a call answers: 0 is success, negative is an error, positive is "not an error, not done".
 */
typedef int32_t weft_result;

enum {
  WEFT_OK = 0,

  WEFT_IN_PROGRESS = 1, /**< Started and not finished: call again, or poll. */
  WEFT_AGAIN = 2,       /**< No room at this moment: nothing was started, try again later. */

  WEFT_ERROR_INVALID_ARGUMENT = -1, /**< An argument is outside its documented range. */
  WEFT_ERROR_INVALID_USAGE = -2,    /**< A call at a time, or in an order, that is not allowed. */
  WEFT_ERROR_CONFIG = -3,           /**< The configuration cannot be read or cannot be satisfied. */
  WEFT_ERROR_PLUGIN = -4,           /**< A plugin is missing, incompatible or misbehaves. */
  WEFT_ERROR_SYSTEM = -5,           /**< The operating system refused; the native code is errno. */
  WEFT_ERROR_DEVICE = -6,           /**< The accelerator or its driver failed. */
  WEFT_ERROR_NETWORK = -7,          /**< A network path failed. */
  WEFT_ERROR_PEER = -8,             /**< Another rank died, left or reported a failure. */
  WEFT_ERROR_TIMEOUT = -9,          /**< A deadline passed. */
  WEFT_ERROR_ABORTED = -10,         /**< The communicator was aborted by its user. */
  WEFT_ERROR_OUT_OF_MEMORY = -11,   /**< Memory is exhausted. */
  WEFT_ERROR_OUT_OF_RESOURCES = -12, /**< Descriptors, threads or another limit are exhausted. */
  WEFT_ERROR_UNSUPPORTED = -13,      /**< Valid, and not offered by this build, plugin or path. */
  WEFT_ERROR_MISMATCH = -14,         /**< Ranks disagree on what they call or how. */
  WEFT_ERROR_INTERNAL = -15          /**< A defect of Weft or of a plugin. */
};

/** Element types; the numbers are those of NCCL's ncclDataType_t. */
typedef int32_t weft_data_type;

enum {
  WEFT_INT8 = 0,
  WEFT_UINT8 = 1,
  WEFT_INT32 = 2,
  WEFT_UINT32 = 3,
  WEFT_INT64 = 4,
  WEFT_UINT64 = 5,
  WEFT_FLOAT16 = 6,
  WEFT_FLOAT32 = 7,
  WEFT_FLOAT64 = 8,
  WEFT_BFLOAT16 = 9,
  WEFT_FLOAT8_E4M3 = 10, /**< OCP: no infinities, up to 448, NaN is 0x7F and 0xFF ("e4m3fn"). */
  WEFT_FLOAT8_E5M2 = 11  /**< OCP: the upper byte of a float16. */
};

/** Reductions; the numbers are those of NCCL's ncclRedOp_t. */
typedef int32_t weft_reduction;

enum { WEFT_SUM = 0, WEFT_PROD = 1, WEFT_MAX = 2, WEFT_MIN = 3, WEFT_AVG = 4 };

/** How much a log line matters; larger is more. */
typedef int32_t weft_log_level;

enum {
  WEFT_LOG_TRACE = 0,
  WEFT_LOG_DEBUG = 1,
  WEFT_LOG_INFO = 2,
  WEFT_LOG_WARN = 3,
  WEFT_LOG_ERROR = 4
};

#ifdef __cplusplus
}
#endif

#endif /* WEFT_TYPES_H */
