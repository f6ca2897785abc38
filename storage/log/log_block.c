/* log_block.c: reads a segment through a buffer, and checks each frame by itself.
 *
 * The callers check whether a frame continues the previous one (chain, epoch). Bytes beyond the end of the file read as
 * zeros, which are never a valid frame. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log_internal.h"

void block_init(struct block *block, const struct disk *disk) {
    *block = (struct block){.disk = disk, .handle = -1};
}

void block_deinit(struct block *block) {
    free(block->data);
    *block = (struct block){.handle = -1};
}

void block_attach(struct block *block, int handle, uint64_t base) {
    block->handle = handle;
    block->base = base;
    block->size = 0;
}

/* Allocates at least `size` bytes, and discards the buffer's content. */
static int block_reserve(struct block *block, size_t size) {
    /* Allocate no more than `size` needs. Shrink a buffer above four times LOG_BLOCK_SIZE, which one large frame
     * needed. */
    size_t wanted = SEGMENT_HEADER_SIZE;
    while (wanted < size && wanted < LOG_BLOCK_SIZE) wanted *= 2;
    if (wanted < size) wanted = size;
    if (block->room == wanted || (block->room > wanted && block->room <= 4 * LOG_BLOCK_SIZE)) return 0;
    uint8_t *data = malloc(wanted);
    if (!data) return -ENOMEM;
    free(block->data);
    block->data = data;
    block->room = wanted;
    block->size = 0;
    return 0;
}

int block_get(struct block *block, uint64_t position, size_t size, uint64_t end, const uint8_t **out) {
    assert(position >= block->base && position <= end && size <= end - position);
    uint64_t offset = position - block->position;
    if (position < block->position || offset > block->size || size > block->size - offset) {
        size_t ahead = end - position < LOG_BLOCK_SIZE ? (size_t)(end - position) : LOG_BLOCK_SIZE;
        if (ahead < size) ahead = size;
        int result = block_reserve(block, ahead);
        if (result < 0) return result;
        block->size = 0;
        int64_t count = disk_read_all(block->disk, block->handle, block->data, ahead,
                                      SEGMENT_HEADER_SIZE + (position - block->base));
        if (count < 0) return (int)count;
        memset(block->data + count, 0, ahead - (size_t)count);
        block->position = position;
        block->size = ahead;
        offset = 0;
    }
    *out = block->data + offset;
    return 0;
}

int block_frame_header(struct block *block, uint64_t position, uint64_t end, struct frame_header *out,
                       const char **out_problem) {
    *out_problem = "the segment has no space for a frame";
    if (position > end || end - position < FRAME_HEADER_SIZE) return BLOCK_WRONG;
    const uint8_t *bytes;
    int result = block_get(block, position, FRAME_HEADER_SIZE, end, &bytes);
    if (result < 0) return result;
    struct frame_header header;
    *out_problem = "there is no valid frame header";
    if (!frame_header_decode(bytes, &header)) return BLOCK_WRONG;
    *out_problem = "the frame header contains another position than the frame's";
    if (header.position != position) return BLOCK_WRONG;
    *out_problem = "the frame header contains a durable position after the frame";
    if (header.synced_to > position) return BLOCK_WRONG;
    *out = header;
    return 0;
}

int block_frame_content(struct block *block, const struct frame_header *header, bool with_blob, uint64_t end,
                        const uint8_t **out_body, const uint8_t **out_blob, const char **out_problem) {
    uint64_t size = frame_size(header->body_size, header->blob_size);
    *out_problem = "the frame is longer than the rest of its segment";
    if (size > end - header->position) return BLOCK_WRONG;
    uint64_t from = frame_blob_position(header->position);
    size_t blob_size = header->blob_size;
    if (!with_blob) {
        from = frame_body_position(header->position, header->blob_size);
        blob_size = 0;
    }
    size_t content_size = (size_t)(header->position + size - from);
    const uint8_t *content;
    int result = block_get(block, from, content_size, end, &content);
    if (result < 0) return result;
    const uint8_t *body = content + blob_size;
    *out_problem = "the frame's body does not match its checksum";
    if (frame_sum(body, header->body_size) != header->body_sum) return BLOCK_WRONG;
    *out_problem = "the frame's contents do not match their checksum";
    /* The caller checks the contents of an erased frame one by one, by the records that name them. */
    bool is_checked = with_blob && !(header->flags & FRAME_FLAG_ERASED);
    if (is_checked && frame_sum(content, blob_size) != header->blob_sum) return BLOCK_WRONG;
    *out_problem = "the padding of the frame is not zero";
    for (size_t i = blob_size + header->body_size; i < content_size; i++)
        if (content[i] != 0) return BLOCK_WRONG;
    *out_body = body;
    *out_blob = with_blob ? content : NULL;
    return 0;
}
