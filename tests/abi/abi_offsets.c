/* SPDX-FileCopyrightText: 2026 The Weft authors */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The layout of every struct of the plugin ABI, held in place: fields are appended, never moved. A
 * new field adds a line here and changes the size; any other edit means that plugins in the field
 * would read the wrong bytes.
 */
#include <assert.h>
#include <stddef.h>

#include "plugin_api/net.h"
#include "plugin_api/observer.h"
#include "plugin_api/plugin.h"
#include "plugin_api/transport.h"
#include "plugin_api/tuner.h"

#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "the size of " #type " changed")
#define AT(type, field, offset) \
  static_assert(offsetof(type, field) == (offset), #type "." #field " moved")

/* ---- plugin.h */

SIZE(weft_blob, 16);
AT(weft_blob, data, 0);
AT(weft_blob, size, 8);

SIZE(weft_parameter, 56);
AT(weft_parameter, struct_size, 0);
AT(weft_parameter, type, 4);
AT(weft_parameter, name, 8);
AT(weft_parameter, unit, 16);
AT(weft_parameter, default_value, 24);
AT(weft_parameter, help, 32);
AT(weft_parameter, minimum, 40);
AT(weft_parameter, maximum, 48);

SIZE(weft_parameter_value, 40);
AT(weft_parameter_value, struct_size, 0);
AT(weft_parameter_value, type, 4);
AT(weft_parameter_value, number, 8);
AT(weft_parameter_value, text, 16);
AT(weft_parameter_value, items, 24);
AT(weft_parameter_value, item_count, 32);

SIZE(weft_memory, 56);
AT(weft_memory, struct_size, 0);
AT(weft_memory, kind, 4);
AT(weft_memory, device, 8);
AT(weft_memory, sharing, 12);
AT(weft_memory, address, 16);
AT(weft_memory, size, 24);
AT(weft_memory, allocation_id, 32);
AT(weft_memory, generation, 40);
AT(weft_memory, handle, 48);

SIZE(weft_memory_segment, 32);
AT(weft_memory_segment, struct_size, 0);
AT(weft_memory_segment, sharing, 4);
AT(weft_memory_segment, offset, 8);
AT(weft_memory_segment, size, 16);
AT(weft_memory_segment, segment_id, 24);

SIZE(weft_memory_export, 144);
AT(weft_memory_export, struct_size, 0);
AT(weft_memory_export, sharing, 4);
AT(weft_memory_export, descriptor, 8);
AT(weft_memory_export, bytes_used, 12);
AT(weft_memory_export, bytes, 16);

SIZE(weft_host_memory, 64);
AT(weft_host_memory, struct_size, 0);
AT(weft_host_memory, reserved, 4);
AT(weft_host_memory, allocate, 8);
AT(weft_host_memory, free, 16);
AT(weft_host_memory, export_memory, 24);
AT(weft_host_memory, import_memory, 32);
AT(weft_host_memory, query, 40);
AT(weft_host_memory, segments, 48);
AT(weft_host_memory, on_revoke, 56);

SIZE(weft_host, 120);
AT(weft_host, struct_size, 0);
AT(weft_host, abi_version, 4);
AT(weft_host, draft, 8);
AT(weft_host, reserved, 12);
AT(weft_host, host_version, 16);
AT(weft_host, instance, 24);
AT(weft_host, memory, 32);
AT(weft_host, log_enabled, 40);
AT(weft_host, log, 48);
AT(weft_host, set_error, 56);
AT(weft_host, get_parameter, 64);
AT(weft_host, watch, 72);
AT(weft_host, unwatch, 80);
AT(weft_host, counter, 88);
AT(weft_host, count, 96);
AT(weft_host, now_ns, 104);
AT(weft_host, get_extension, 112);

SIZE(weft_interface, 16);
AT(weft_interface, struct_size, 0);
AT(weft_interface, reserved, 4);
AT(weft_interface, id, 8);

SIZE(weft_plugin_descriptor, 352);
AT(weft_plugin_descriptor, magic, 0);
AT(weft_plugin_descriptor, struct_size, 8);
AT(weft_plugin_descriptor, abi_version, 12);
AT(weft_plugin_descriptor, abi_oldest, 16);
AT(weft_plugin_descriptor, draft, 20);
AT(weft_plugin_descriptor, id, 24);
AT(weft_plugin_descriptor, version, 56);
AT(weft_plugin_descriptor, vendor, 88);
AT(weft_plugin_descriptor, description, 152);
AT(weft_plugin_descriptor, interfaces, 280);
AT(weft_plugin_descriptor, interface_count, 288);
AT(weft_plugin_descriptor, interface_stride, 292);
AT(weft_plugin_descriptor, parameters, 296);
AT(weft_plugin_descriptor, parameter_count, 304);
AT(weft_plugin_descriptor, parameter_stride, 308);
AT(weft_plugin_descriptor, init, 312);
AT(weft_plugin_descriptor, deinit, 320);
AT(weft_plugin_descriptor, get_interface, 328);
AT(weft_plugin_descriptor, get_extension, 336);
AT(weft_plugin_descriptor, quiesce, 344);

/* ---- transport.h */

SIZE(weft_transport_open_info, 48);
AT(weft_transport_open_info, struct_size, 0);
AT(weft_transport_open_info, rank, 4);
AT(weft_transport_open_info, ranks, 8);
AT(weft_transport_open_info, device, 12);
AT(weft_transport_open_info, communicator, 16);
AT(weft_transport_open_info, key, 24);
AT(weft_transport_open_info, key_size, 32);
AT(weft_transport_open_info, host_id, 40);

SIZE(weft_peer, 32);
AT(weft_peer, struct_size, 0);
AT(weft_peer, rank, 4);
AT(weft_peer, same_process, 8);
AT(weft_peer, same_host, 12);
AT(weft_peer, info, 16);

SIZE(weft_can_connect, 288);
AT(weft_can_connect, struct_size, 0);
AT(weft_can_connect, capabilities, 4);
AT(weft_can_connect, locality, 8);
AT(weft_can_connect, reserved, 12);
AT(weft_can_connect, bandwidth_mbps, 16);
AT(weft_can_connect, latency_ns, 24);
AT(weft_can_connect, reason, 32);

SIZE(weft_protocol_request, 16);
AT(weft_protocol_request, struct_size, 0);
AT(weft_protocol_request, protocol, 4);
AT(weft_protocol_request, steps, 8);
AT(weft_protocol_request, step_bytes, 12);

SIZE(weft_connection_request, 40);
AT(weft_connection_request, struct_size, 0);
AT(weft_connection_request, direction, 4);
AT(weft_connection_request, peer, 8);
AT(weft_connection_request, channel, 12);
AT(weft_connection_request, number, 16);
AT(weft_connection_request, protocols, 24);
AT(weft_connection_request, protocol_count, 32);
AT(weft_connection_request, protocol_stride, 36);

SIZE(weft_slot_meta, 16);
AT(weft_slot_meta, size, 0);
AT(weft_slot_meta, offset, 4);
AT(weft_slot_meta, tag, 8);

SIZE(weft_protocol_view, 112);
AT(weft_protocol_view, struct_size, 0);
AT(weft_protocol_view, protocol, 4);
AT(weft_protocol_view, memory, 8);
AT(weft_protocol_view, device, 12);
AT(weft_protocol_view, buffer, 16);
AT(weft_protocol_view, steps, 24);
AT(weft_protocol_view, step_bytes, 28);
AT(weft_protocol_view, order_bytes, 32);
AT(weft_protocol_view, needs_flush, 36);
AT(weft_protocol_view, head, 40);
AT(weft_protocol_view, tail, 48);
AT(weft_protocol_view, head_waiters, 56);
AT(weft_protocol_view, tail_waiters, 64);
AT(weft_protocol_view, slots, 72);
AT(weft_protocol_view, error, 80);
AT(weft_protocol_view, head_writer, 88);
AT(weft_protocol_view, tail_writer, 92);
AT(weft_protocol_view, head_memory, 96);
AT(weft_protocol_view, tail_memory, 100);
AT(weft_protocol_view, peer_error, 104);

SIZE(weft_buffer_export, 56);
AT(weft_buffer_export, struct_size, 0);
AT(weft_buffer_export, reserved, 4);
AT(weft_buffer_export, allocation_id, 8);
AT(weft_buffer_export, generation, 16);
AT(weft_buffer_export, offset, 24);
AT(weft_buffer_export, size, 32);
AT(weft_buffer_export, blob, 40);

SIZE(weft_transport_interface, 152);
AT(weft_transport_interface, struct_size, 0);
AT(weft_transport_interface, reserved, 4);
AT(weft_transport_interface, open, 8);
AT(weft_transport_interface, close, 16);
AT(weft_transport_interface, peer_info, 24);
AT(weft_transport_interface, can_connect, 32);
AT(weft_transport_interface, prepare, 40);
AT(weft_transport_interface, connection_blob, 48);
AT(weft_transport_interface, connect, 56);
AT(weft_transport_interface, describe, 64);
AT(weft_transport_interface, close_connection, 72);
AT(weft_transport_interface, progress, 80);
AT(weft_transport_interface, arm, 88);
AT(weft_transport_interface, abort, 96);
AT(weft_transport_interface, drain, 104);
AT(weft_transport_interface, read_peer, 112);
AT(weft_transport_interface, export_buffer, 120);
AT(weft_transport_interface, import_buffer, 128);
AT(weft_transport_interface, release_buffer, 136);
AT(weft_transport_interface, bytes_held, 144);

/* ---- net.h */

SIZE(weft_net_open_info, 48);
AT(weft_net_open_info, struct_size, 0);
AT(weft_net_open_info, rank, 4);
AT(weft_net_open_info, ranks, 8);
AT(weft_net_open_info, traffic_class, 12);
AT(weft_net_open_info, job, 16);
AT(weft_net_open_info, communicator, 24);
AT(weft_net_open_info, key, 32);
AT(weft_net_open_info, key_size, 40);

SIZE(weft_net_device, 112);
AT(weft_net_device, struct_size, 0);
AT(weft_net_device, capabilities, 4);
AT(weft_net_device, name, 8);
AT(weft_net_device, pci_path, 16);
AT(weft_net_device, guid, 24);
AT(weft_net_device, speed_mbps, 32);
AT(weft_net_device, latency_ns, 40);
AT(weft_net_device, fabric_id, 48);
AT(weft_net_device, port, 56);
AT(weft_net_device, rail, 60);
AT(weft_net_device, plane, 64);
AT(weft_net_device, numa_node, 68);
AT(weft_net_device, max_receives, 72);
AT(weft_net_device, max_requests, 76);
AT(weft_net_device, max_message, 80);
AT(weft_net_device, max_connections, 88);
AT(weft_net_device, members, 96);
AT(weft_net_device, member_count, 104);
AT(weft_net_device, reserved, 108);

SIZE(weft_net_register_info, 40);
AT(weft_net_register_info, struct_size, 0);
AT(weft_net_register_info, kind, 4);
AT(weft_net_register_info, address, 8);
AT(weft_net_register_info, size, 16);
AT(weft_net_register_info, dmabuf, 24);
AT(weft_net_register_info, flags, 28);
AT(weft_net_register_info, dmabuf_offset, 32);

SIZE(weft_net_send, 56);
AT(weft_net_send, struct_size, 0);
AT(weft_net_send, tag, 4);
AT(weft_net_send, data, 8);
AT(weft_net_send, size, 16);
AT(weft_net_send, value, 24);
AT(weft_net_send, registration, 32);
AT(weft_net_send, user, 40);
AT(weft_net_send, flags, 48);
AT(weft_net_send, reserved, 52);

SIZE(weft_net_recv, 48);
AT(weft_net_recv, struct_size, 0);
AT(weft_net_recv, tag, 4);
AT(weft_net_recv, data, 8);
AT(weft_net_recv, size, 16);
AT(weft_net_recv, registration, 24);
AT(weft_net_recv, user, 32);
AT(weft_net_recv, flags, 40);
AT(weft_net_recv, reserved, 44);

SIZE(weft_net_completion, 40);
AT(weft_net_completion, struct_size, 0);
AT(weft_net_completion, status, 4);
AT(weft_net_completion, user, 8);
AT(weft_net_completion, size, 16);
AT(weft_net_completion, value, 24);
AT(weft_net_completion, connection, 32);

SIZE(weft_net_event, 272);
AT(weft_net_event, struct_size, 0);
AT(weft_net_event, kind, 4);
AT(weft_net_event, device, 8);
AT(weft_net_event, reserved, 12);
AT(weft_net_event, text, 16);

SIZE(weft_net_interface, 184);
AT(weft_net_interface, struct_size, 0);
AT(weft_net_interface, reserved, 4);
AT(weft_net_interface, open, 8);
AT(weft_net_interface, close, 16);
AT(weft_net_interface, devices, 24);
AT(weft_net_interface, listen, 32);
AT(weft_net_interface, close_listener, 40);
AT(weft_net_interface, connect, 48);
AT(weft_net_interface, accept, 56);
AT(weft_net_interface, ready, 64);
AT(weft_net_interface, close_connection, 72);
AT(weft_net_interface, register_memory, 80);
AT(weft_net_interface, deregister_memory, 88);
AT(weft_net_interface, isend, 96);
AT(weft_net_interface, irecv, 104);
AT(weft_net_interface, flush, 112);
AT(weft_net_interface, poll, 120);
AT(weft_net_interface, progress, 128);
AT(weft_net_interface, arm, 136);
AT(weft_net_interface, cancel, 144);
AT(weft_net_interface, abort, 152);
AT(weft_net_interface, drain, 160);
AT(weft_net_interface, next_event, 168);
AT(weft_net_interface, get_error, 176);

SIZE(weft_net_put, 80);
AT(weft_net_put, struct_size, 0);
AT(weft_net_put, order, 4);
AT(weft_net_put, data, 8);
AT(weft_net_put, size, 16);
AT(weft_net_put, registration, 24);
AT(weft_net_put, destination, 32);
AT(weft_net_put, destination_offset, 40);
AT(weft_net_put, signal, 48);
AT(weft_net_put, signal_offset, 56);
AT(weft_net_put, signal_value, 64);
AT(weft_net_put, user, 72);

SIZE(weft_net_rma_interface, 64);
AT(weft_net_rma_interface, struct_size, 0);
AT(weft_net_rma_interface, reserved, 4);
AT(weft_net_rma_interface, export_key, 8);
AT(weft_net_rma_interface, open_window, 16);
AT(weft_net_rma_interface, close_window, 24);
AT(weft_net_rma_interface, put, 32);
AT(weft_net_rma_interface, get, 40);
AT(weft_net_rma_interface, flush, 48);
AT(weft_net_rma_interface, quiet, 56);

/* ---- tuner.h */

SIZE(weft_tuner_link, 32);
AT(weft_tuner_link, struct_size, 0);
AT(weft_tuner_link, locality, 4);
AT(weft_tuner_link, bandwidth_mbps, 8);
AT(weft_tuner_link, latency_ns, 16);
AT(weft_tuner_link, plugin, 24);

SIZE(weft_tuner_open_info, 64);
AT(weft_tuner_open_info, struct_size, 0);
AT(weft_tuner_open_info, ranks, 4);
AT(weft_tuner_open_info, hosts, 8);
AT(weft_tuner_open_info, ranks_per_host, 12);
AT(weft_tuner_open_info, max_channels, 16);
AT(weft_tuner_open_info, traffic_class, 20);
AT(weft_tuner_open_info, communicator, 24);
AT(weft_tuner_open_info, device, 32);
AT(weft_tuner_open_info, topology_hash, 40);
AT(weft_tuner_open_info, links, 48);
AT(weft_tuner_open_info, link_count, 56);
AT(weft_tuner_open_info, link_stride, 60);

SIZE(weft_tuner_table, 152);
AT(weft_tuner_table, struct_size, 0);
AT(weft_tuner_table, reserved, 4);
AT(weft_tuner_table, version, 8);
AT(weft_tuner_table, hash, 16);
AT(weft_tuner_table, name, 24);

SIZE(weft_tuner_question, 56);
AT(weft_tuner_question, struct_size, 0);
AT(weft_tuner_question, operation, 4);
AT(weft_tuner_question, type, 8);
AT(weft_tuner_question, reduction, 12);
AT(weft_tuner_question, bytes, 16);
AT(weft_tuner_question, total_bytes, 24);
AT(weft_tuner_question, root, 32);
AT(weft_tuner_question, flags, 36);
AT(weft_tuner_question, cta_budget, 40);
AT(weft_tuner_question, group_size, 44);
AT(weft_tuner_question, sequence, 48);

SIZE(weft_tuner_offer, 64);
AT(weft_tuner_offer, struct_size, 0);
AT(weft_tuner_offer, id, 4);
AT(weft_tuner_offer, algorithm, 8);
AT(weft_tuner_offer, protocol, 12);
AT(weft_tuner_offer, path, 16);
AT(weft_tuner_offer, min_channels, 20);
AT(weft_tuner_offer, max_channels, 24);
AT(weft_tuner_offer, channel_step, 28);
AT(weft_tuner_offer, min_chunk, 32);
AT(weft_tuner_offer, max_chunk, 40);
AT(weft_tuner_offer, min_threads, 48);
AT(weft_tuner_offer, max_threads, 52);
AT(weft_tuner_offer, host_estimate_ns, 56);

SIZE(weft_tuner_answer, 32);
AT(weft_tuner_answer, struct_size, 0);
AT(weft_tuner_answer, id, 4);
AT(weft_tuner_answer, time_ns, 8);
AT(weft_tuner_answer, channels, 16);
AT(weft_tuner_answer, threads, 20);
AT(weft_tuner_answer, chunk, 24);

SIZE(weft_tuner_sample, 64);
AT(weft_tuner_sample, struct_size, 0);
AT(weft_tuner_sample, offer, 4);
AT(weft_tuner_sample, question, 8);
AT(weft_tuner_sample, used, 16);
AT(weft_tuner_sample, channels, 24);
AT(weft_tuner_sample, threads, 28);
AT(weft_tuner_sample, chunk, 32);
AT(weft_tuner_sample, time_ns, 40);
AT(weft_tuner_sample, wait_ns, 48);
AT(weft_tuner_sample, table_version, 56);

SIZE(weft_tuner_interface, 80);
AT(weft_tuner_interface, struct_size, 0);
AT(weft_tuner_interface, reserved, 4);
AT(weft_tuner_interface, open, 8);
AT(weft_tuner_interface, close, 16);
AT(weft_tuner_interface, table, 24);
AT(weft_tuner_interface, evaluate, 32);
AT(weft_tuner_interface, report, 40);
AT(weft_tuner_interface, propose, 48);
AT(weft_tuner_interface, adopt, 56);
AT(weft_tuner_interface, discard, 64);
AT(weft_tuner_interface, explain, 72);

/* ---- observer.h */

SIZE(weft_observer_open_info, 56);
AT(weft_observer_open_info, struct_size, 0);
AT(weft_observer_open_info, rank, 4);
AT(weft_observer_open_info, ranks, 8);
AT(weft_observer_open_info, device, 12);
AT(weft_observer_open_info, job, 16);
AT(weft_observer_open_info, communicator, 24);
AT(weft_observer_open_info, parent, 32);
AT(weft_observer_open_info, host_id, 40);
AT(weft_observer_open_info, name, 48);

SIZE(weft_observer_operation, 80);
AT(weft_observer_operation, struct_size, 0);
AT(weft_observer_operation, operation, 4);
AT(weft_observer_operation, id, 8);
AT(weft_observer_operation, sequence, 16);
AT(weft_observer_operation, count, 24);
AT(weft_observer_operation, bytes, 32);
AT(weft_observer_operation, type, 40);
AT(weft_observer_operation, reduction, 44);
AT(weft_observer_operation, root, 48);
AT(weft_observer_operation, channels, 52);
AT(weft_observer_operation, algorithm, 56);
AT(weft_observer_operation, protocol, 60);
AT(weft_observer_operation, path, 64);
AT(weft_observer_operation, captured, 68);
AT(weft_observer_operation, stream, 72);

SIZE(weft_observer_step, 48);
AT(weft_observer_step, struct_size, 0);
AT(weft_observer_step, channel, 4);
AT(weft_observer_step, id, 8);
AT(weft_observer_step, operation, 16);
AT(weft_observer_step, step, 24);
AT(weft_observer_step, bytes, 32);
AT(weft_observer_step, send_peer, 40);
AT(weft_observer_step, recv_peer, 44);

SIZE(weft_observer_transfer, 56);
AT(weft_observer_transfer, struct_size, 0);
AT(weft_observer_transfer, direction, 4);
AT(weft_observer_transfer, id, 8);
AT(weft_observer_transfer, operation, 16);
AT(weft_observer_transfer, bytes, 24);
AT(weft_observer_transfer, peer, 32);
AT(weft_observer_transfer, channel, 36);
AT(weft_observer_transfer, plugin, 40);
AT(weft_observer_transfer, device, 48);

SIZE(weft_observer_interface, 80);
AT(weft_observer_interface, struct_size, 0);
AT(weft_observer_interface, reserved, 4);
AT(weft_observer_interface, open, 8);
AT(weft_observer_interface, close, 16);
AT(weft_observer_interface, operation_start, 24);
AT(weft_observer_interface, operation_stop, 32);
AT(weft_observer_interface, step_start, 40);
AT(weft_observer_interface, step_stop, 48);
AT(weft_observer_interface, transfer_start, 56);
AT(weft_observer_interface, transfer_stop, 64);
AT(weft_observer_interface, state, 72);
