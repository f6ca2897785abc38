/* page.h: makes an audit's result page for fuzz_reply.c, as the input says. */
#ifndef TARRY_FUZZ_PAGE_H
#define TARRY_FUZZ_PAGE_H

#include <string.h>

#include "frame.h"
#include "input.h"
#include "tarry.pb-c.h"

#define PAGE_MAX 4u

/* A page whose frames have correct checksums, unless the input damages them. The input decides about the chain and
 * everything else. */
struct page {
    Tarry__AuditReply reply;
    Tarry__AuditFrame frames[PAGE_MAX], *pointers[PAGE_MAX];
    Tarry__QueueName queue, *queues;
    uint8_t bytes[PAGE_MAX][FRAME_HEADER_SIZE + 32];
    uint8_t chain[FRAME_CHAIN_SIZE];
};

static inline uint64_t page_add_frame(struct page *page, struct input *input, uint64_t position) {
    Tarry__AuditFrame *frame = &page->frames[page->reply.n_frames];
    uint8_t *header_bytes = page->bytes[page->reply.n_frames], *body = header_bytes + FRAME_HEADER_SIZE;
    struct frame_header header = {.epoch = 1, .position = position, .synced_to = position};
    header.body_size = input_byte(input) % 32u;
    header.type = header.body_size == 0 ? FRAME_SEAL : FRAME_COMMIT;
    memset(body, input_byte(input), header.body_size);
    header.body_sum = frame_sum(body, header.body_size);
    frame_chain(page->chain, &header, body, page->chain);
    memcpy(header.chain, page->chain, sizeof(header.chain));
    frame_header_encode(&header, header_bytes);
    unsigned damage = input_byte(input);
    if (damage > 240) header_bytes[damage % (FRAME_HEADER_SIZE + header.body_size)] ^= 1;
    tarry__audit_frame__init(frame);
    frame->header = (ProtobufCBinaryData){FRAME_HEADER_SIZE - (damage == 240), header_bytes};
    frame->body = (ProtobufCBinaryData){header.body_size, body};
    page->pointers[page->reply.n_frames++] = frame;
    return position + frame_size(header.body_size, 0);
}

static inline Tarry__AuditReply *page_make(struct page *page, struct input *input, const Tarry__Audit *audit) {
    memset(page->chain, 0, sizeof(page->chain));
    page->reply = (Tarry__AuditReply)TARRY__AUDIT_REPLY__INIT;
    page->reply.frames = page->pointers;
    uint64_t position = audit->position != 0 ? audit->position : LOG_POSITION_FIRST;
    for (unsigned left = input_byte(input) % (PAGE_MAX + 1); left > 0; left--)
        position = page_add_frame(page, input, position);
    unsigned odd = input_byte(input);
    page->reply.next = position + (odd == 1 ? 8 : 0) - (odd == 2 ? 8 : 0);
    page->reply.durable = position + (odd % 4 == 3 ? 4096 : 0);
    page->reply.end = page->reply.next >= page->reply.durable;
    if (odd % 8 == 7) page->reply.next = page->reply.gap_to = position + 128;
    if (odd == 15) page->reply.gap_problem = "x.seg.zst is damaged";
    tarry__queue_name__init(&page->queue);
    page->queue.number = input_byte(input) * (odd == 4 ? 64u : 1u);
    page->queue.name = "orders";
    page->queues = &page->queue;
    page->reply.queues = &page->queues;
    page->reply.n_queues = odd % 2;
    return &page->reply;
}

#endif
