/* core_world.h: one broker on virtual time: a core, a log that is made durable when the test says so, an index that
 * lags, facts and windows that are read late and handed in later still, consumers on lanes, crashes. No threads;
 * everything follows from the seed. */
#ifndef TARRY_TESTS_CORE_WORLD_H
#define TARRY_TESTS_CORE_WORLD_H

#include "../random.h"
#include "core_flat.h"

#define WORLD_FRAMES_MAX 4096
#define WORLD_WAITING_MAX 64
#define WORLD_SESSIONS_MAX 8
#define WORLD_HELD_MAX 256

struct world_frame {
    struct frame_header header;
    uint8_t *body;   /* owned */
    uint64_t digest; /* of the core after the step that appended it; 0: not the last frame of its step */
};

enum waiting_kind { WAITING_FACTS, WAITING_WINDOW, WAITING_PAGE, WAITING_LIST };

struct waiting { /* something that is being read for the core */
    enum waiting_kind kind;
    bool was_read;
    int hold;
    struct core_event event; /* FACTS, LIST: goes on when it was read */
    struct want *wants;
    size_t want_count;
    struct core_window window;
    struct core_page page;
};

struct world_reply { /* not yet durable */
    uint64_t ticket;
    uint64_t after;
    Tarry__Reply *reply; /* owned by `memory` */
    Tarry__CommitReply *commit;
};

struct world_delivery {
    struct core_delivery delivery; /* tasks and keys owned by `memory` */
};

struct world_session {
    uint64_t id; /* 0: unused */
    bool up;
};

struct held { /* a delivery that a consumer got */
    uint64_t id;
    uint32_t epoch;
    uint64_t position;
    uint64_t session;
};

struct world {
    struct random random;
    struct core_options options;
    struct core *core;
    struct arena arena; /* effects */
    struct core_effects effects;
    struct arena memory; /* lives as long as the history */
    struct instant now;
    struct world_frame frames[WORLD_FRAMES_MAX];
    size_t frame_count;
    size_t durable_count; /* frames */
    uint64_t durable;     /* position */
    struct flat index;    /* as of index_count frames */
    size_t index_count;
    struct flat head; /* as of all frames appended */
    struct waiting waiting[WORLD_WAITING_MAX];
    size_t waiting_count;
    struct world_reply replies[WORLD_FRAMES_MAX];
    size_t reply_count;
    struct world_delivery deliveries[256];
    size_t delivery_count;
    struct world_session sessions[WORLD_SESSIONS_MAX];
    struct held held[WORLD_HELD_MAX];
    size_t held_count;
    uint32_t crashes;
    uint64_t steps;
    /* What the test wants to hear of. */
    void *observer;
    void (*on_reply)(void *observer, uint64_t ticket, const Tarry__Reply *reply, const Tarry__CommitReply *commit);
    void (*on_delivery)(void *observer, const struct core_delivery *delivery);
    void (*on_frame)(void *observer, const Tarry__FrameBody *body);
    void (*before_commit)(void *observer, const struct core_event *event);
};

void world_init(struct world *world, uint64_t seed, const struct core_options *options);
void world_deinit(struct world *world);
/* The event goes to the core, at once or when the facts that it lacks have been read. */
void world_post(struct world *world, struct core_event *event);
/* One random thing that the machine does: sync, index, read, hand in, time, tick. */
void world_turn(struct world *world);
/* Everything catches up: until nothing waits. */
void world_settle(struct world *world);
/* Loses what is not durable (or some of it), restores from the index and the log's tail, starts again. */
void world_crash(struct world *world);
void world_advance(struct world *world, uint64_t ms);
void *world_alloc(struct world *world, size_t size);

#endif
