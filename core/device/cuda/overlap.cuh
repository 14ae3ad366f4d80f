// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Programmatic serialization of the kernels of a stream, of the device's side.
#pragma once

namespace weft::device::cuda {

// Waits for the kernel before this one in the stream, then lets the next be set up while this one
// runs. In that order one kernel at most is resident early: a queue of them would fill the device,
// while this one may wait for a kernel that is still to come. Where kernels are not launched so,
// both do nothing.
__device__ inline void overlap_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

}  // namespace weft::device::cuda
