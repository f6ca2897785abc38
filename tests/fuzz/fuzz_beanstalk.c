/* fuzz_beanstalk.c: parses bytes of a beanstalkd client. However the bytes are split, the same commands come out;
 * memory is bounded and freed; a tube's name is valid; a body has exactly the sent bytes.
 *
 * The input: one byte that selects the size of the pieces, then the stream. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "beanstalk_parser.h"
#include "beanstalk_text.h"
#include "fuzz.h"

#define COMMANDS_MAX 4096u

struct held {
    int64_t bytes;
    int64_t most;
};

static bool room(void *argument, int64_t bytes) {
    struct held *held = argument;
    if (bytes > 0 && held->bytes + bytes > held->most) return false;
    held->bytes += bytes;
    assert(held->bytes >= 0);
    return true;
}

struct seen {
    enum beanstalk_kind kind;
    uint64_t id;
    uint32_t pri, delay_s, ttr_s, bound, body_size;
    int64_t timeout_s;
    size_t end; /* position in the stream */
};

static void check(const struct beanstalk_command *command, const uint8_t *data, size_t end) {
    assert(command->kind < BEANSTALK_KINDS);
    if (command->tube != NULL && command->kind > BEANSTALK_PUT) {
        size_t size = strlen(command->tube);
        assert(size > 0 && size <= BEANSTALK_TUBE_MAX && command->tube[0] != '-');
    }
    if (command->kind != BEANSTALK_PUT) return;
    assert(command->body_size <= BEANSTALK_JOB_MAX && command->ttr_s > 0 && end >= command->body_size + 2u);
    assert(memcmp(command->body, data + end - command->body_size - 2, command->body_size) == 0);
}

/* Parses the stream in pieces of `piece` bytes. Returns the number of commands. */
static size_t take(const uint8_t *data, size_t size, size_t piece, int64_t most, struct seen *seen) {
    struct held held = {.most = most};
    struct beanstalk_parser parser = {.room = room, .argument = &held};
    size_t count = 0;
    for (size_t at = 0; at < size;) {
        struct beanstalk_command command;
        size_t part = piece < size - at ? piece : size - at;
        size_t taken = beanstalk_parse(&parser, data + at, part, &command);
        assert(taken > 0 && taken <= part && (taken == part || command.kind != BEANSTALK_NONE));
        at += taken;
        if (command.kind == BEANSTALK_NONE) continue;
        check(&command, data, at);
        if (count == COMMANDS_MAX) break;
        seen[count++] = (struct seen){command.kind,      command.id,        command.pri,
                                      command.delay_s,   command.ttr_s,     command.bound,
                                      command.body_size, command.timeout_s, at};
    }
    beanstalk_parser_end(&parser);
    assert(held.bytes == 0);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct seen whole[COMMANDS_MAX], pieces[COMMANDS_MAX];
    if (size == 0) return 0;
    const int64_t most = data[0] % 2 == 0 ? INT64_MAX : 100; /* if the limit is 100, some bodies are too large */
    memset(whole, 0, sizeof(whole));
    memset(pieces, 0, sizeof(pieces));
    size_t count = take(data + 1, size - 1, size, most, whole);
    assert(count == take(data + 1, size - 1, 1 + data[0] / 2, most, pieces));
    for (size_t i = 0; i < count; i++) {
        assert(whole[i].kind == pieces[i].kind && whole[i].id == pieces[i].id && whole[i].end == pieces[i].end);
        assert(whole[i].pri == pieces[i].pri && whole[i].delay_s == pieces[i].delay_s);
        assert(whole[i].ttr_s == pieces[i].ttr_s && whole[i].bound == pieces[i].bound);
        assert(whole[i].body_size == pieces[i].body_size && whole[i].timeout_s == pieces[i].timeout_s);
    }
    return 0;
}
