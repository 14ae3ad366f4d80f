// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

#include "core/transport/view_order.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

weft_protocol_view view_of(weft_memory_kind memory, std::uint32_t order_bytes) {
  weft_protocol_view view{};
  view.memory = memory;
  view.order_bytes = order_bytes;
  return view;
}

TEST(ViewOrder, OfDeviceMemoryTheDeviceMayKnowMore) {
  EXPECT_EQ(order_of(view_of(WEFT_MEMORY_CUDA, 8), 8), 8U);
  EXPECT_EQ(order_of(view_of(WEFT_MEMORY_CUDA, 8), 128), 128U);
  EXPECT_EQ(order_of(view_of(WEFT_MEMORY_CUDA, 16), 8), 16U) << "the transport's promise stands";
}

TEST(ViewOrder, OfHostMemoryTheTransportAloneSpeaks) {
  EXPECT_EQ(order_of(view_of(WEFT_MEMORY_HOST, 8), 128), 8U);
  EXPECT_EQ(order_of(view_of(WEFT_MEMORY_HOST, 128), 8), 128U);
}

}  // namespace
}  // namespace weft
