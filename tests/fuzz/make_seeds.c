/* make_seeds.c: writes the first inputs of each target's corpus: well-formed messages, from which the fuzzer learns
 * the format. `make_seeds DIR` writes DIR/frame/…, DIR/request/… and so on; it replaces existing files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bytes.h"
#include "frame.h"
#include "row.h"

static const char *root;

static void save(const char *target, const char *name, const void *data, size_t size) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", root, target);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        perror(path);
        exit(1);
    }
    snprintf(path, sizeof(path), "%s/%s/%s", root, target, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static uint8_t packed[65536];

static void save_message(const char *target, const char *name, const ProtobufCMessage *message) {
    if (protobuf_c_message_get_packed_size(message) > sizeof(packed)) abort();
    save(target, name, packed, protobuf_c_message_pack(message, packed));
}

static void frames(void) {
    struct frame_header commit = {.type = FRAME_COMMIT, .epoch = 1, .body_size = 100, .blob_size = 40};
    struct frame_header seal = {.type = FRAME_SEAL, .epoch = 1, .position = 4096 + 256, .synced_to = 4096 + 256};
    commit.position = LOG_POSITION_FIRST;
    uint8_t bytes[FRAME_HEADER_SIZE];
    frame_header_encode(&commit, bytes);
    save("frame", "seed-commit", bytes, sizeof(bytes));
    frame_header_encode(&seal, bytes);
    save("frame", "seed-seal", bytes, sizeof(bytes));
    commit.flags = FRAME_FLAG_ERASED;
    frame_header_encode(&commit, bytes);
    save("frame", "seed-erased", bytes, sizeof(bytes));
}

static Tarry__Attribute attributes[2] = {TARRY__ATTRIBUTE__INIT, TARRY__ATTRIBUTE__INIT};
static Tarry__Attribute *attribute_pointers[2] = {&attributes[0], &attributes[1]};
static uint8_t content_bytes[256];
static size_t content_size;

static void contents(void) {
    attributes[0].name = "region", attributes[0].value = "eu";
    attributes[1].name = "k\xc3\xa4se", attributes[1].value = "line 1\nline 2";
    Tarry__Content content = TARRY__CONTENT__INIT;
    save_message("content", "seed-empty", &content.base);
    content.payload = (ProtobufCBinaryData){.len = 5, .data = (uint8_t *)"hello"};
    save_message("content", "seed-payload", &content.base);
    content.n_attributes = 2;
    content.attributes = attribute_pointers;
    save_message("content", "seed-attributes", &content.base);
    content_size = tarry__content__pack(&content, content_bytes);
    attributes[1].name = "region";
    save_message("content", "seed-doubled", &content.base);
    attributes[1].name = "k\xc3\xa4se";
}

static void requests(void) {
    Tarry__When when = TARRY__WHEN__INIT;
    when.ms = 1800000;
    Tarry__Ref by_key = TARRY__REF__INIT, by_id = TARRY__REF__INIT;
    by_key.queue = "orders";
    by_key.key = (ProtobufCBinaryData){.len = 7, .data = (uint8_t *)"order-1"};
    by_id.id = 42;
    Tarry__Token token = TARRY__TOKEN__INIT;
    token.epoch = 1, token.position = 4096;
    Tarry__Schedule schedule = TARRY__SCHEDULE__INIT;
    schedule.queue = "orders", schedule.key = by_key.key, schedule.when = &when, schedule.priority = 9;
    schedule.expires_ms = 1000, schedule.on_conflict = TARRY__SCHEDULE__ON_CONFLICT__LATER;
    schedule.content = (ProtobufCBinaryData){.len = content_size, .data = content_bytes};
    Tarry__Cancel cancel = TARRY__CANCEL__INIT;
    cancel.task = &by_key, cancel.withdraw = true;
    Tarry__Move move = TARRY__MOVE__INIT;
    move.task = &by_id, move.when = &when;
    Tarry__Ack ack = TARRY__ACK__INIT;
    ack.id = 42, ack.token = &token;
    Tarry__Nack nack = TARRY__NACK__INIT;
    nack.id = 42, nack.token = &token, nack.dead = true, nack.reason = "no such customer";
    Tarry__Extend extend = TARRY__EXTEND__INIT;
    extend.id = 42, extend.token = &token, extend.lease_ms = 60000;
    Tarry__Release release = TARRY__RELEASE__INIT;
    release.id = 42, release.token = &token;
    Tarry__DeadOp dead = TARRY__DEAD_OP__INIT;
    dead.task = &by_key, dead.all = true;
    Tarry__Policy policy = TARRY__POLICY__INIT;
    policy.lease_ms = 30000, policy.backoff_jitter = 20;
    char *fields[] = {"lease_ms", "backoff_jitter"};
    Tarry__QueueSet set = TARRY__QUEUE_SET__INIT;
    set.queue = "orders", set.policy = &policy, set.n_fields = 2, set.fields = fields;
    Tarry__QueuePause pause = TARRY__QUEUE_PAUSE__INIT;
    pause.queue = "orders", pause.paused = true, pause.for_ms = 1000;
    Tarry__QueuePurge purge = TARRY__QUEUE_PURGE__INIT;
    purge.queue = "orders", purge.states = 7;
    void *messages[] = {&schedule, &cancel, &move, &ack, &nack, &extend, &release, &dead, &set, &pause, &purge};
    Tarry__Op ops[11], *pointers[11];
    Tarry__Commit commit = TARRY__COMMIT__INIT;
    commit.producer = 1, commit.sequence = 1, commit.oldest_unanswered = 1, commit.atomic = true;
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.version = 1, request.client = "seed", request.body_case = TARRY__REQUEST__BODY_COMMIT;
    request.commit = &commit;
    for (int i = 0; i < 11; i++) {
        ops[i] = (Tarry__Op)TARRY__OP__INIT;
        ops[i].op_case = (Tarry__Op__OpCase)(i + 1);
        ops[i].schedule = messages[i];
        pointers[i] = &ops[i];
        commit.n_ops = 1, commit.ops = &pointers[i];
        char name[32];
        snprintf(name, sizeof(name), "seed-op-%d", i + 1);
        save_message("request", name, &request.base);
        save_message("prepare", name, &request.base);
    }
    commit.n_ops = 11, commit.ops = pointers;
    save_message("request", "seed-all", &request.base);
    save_message("prepare", "seed-all", &request.base);
}

/* Writes requests that are not commits. */
static void questions(void) {
    Tarry__Ref by_key = TARRY__REF__INIT;
    by_key.queue = "orders";
    by_key.key = (ProtobufCBinaryData){.len = 7, .data = (uint8_t *)"order-1"};
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.version = 1, request.client = "seed";
    Tarry__Subscribe subscribe = TARRY__SUBSCRIBE__INIT;
    subscribe.queues = &by_key.queue, subscribe.n_queues = 1, subscribe.prefetch = 100;
    request.body_case = TARRY__REQUEST__BODY_SUBSCRIBE, request.subscribe = &subscribe;
    save_message("prepare", "seed-subscribe", &request.base);
    Tarry__List list = TARRY__LIST__INIT;
    list.queue = "orders", list.states = 15, list.prefix = by_key.key;
    request.body_case = TARRY__REQUEST__BODY_LIST, request.list = &list;
    save_message("prepare", "seed-list", &request.base);
    Tarry__Get get = TARRY__GET__INIT;
    get.task = &by_key;
    request.body_case = TARRY__REQUEST__BODY_GET, request.get = &get;
    save_message("prepare", "seed-get", &request.base);
    Tarry__Backup backup = TARRY__BACKUP__INIT;
    request.body_case = TARRY__REQUEST__BODY_BACKUP, request.backup = &backup;
    backup.what = TARRY__BACKUP__WHAT__BEGIN;
    save_message("prepare", "seed-backup-begin", &request.base);
    backup.what = TARRY__BACKUP__WHAT__READ, backup.backup = 1ull << 32 | 1, backup.offset = 4096,
    backup.size = 1 << 20;
    save_message("prepare", "seed-backup-read", &request.base);
    Tarry__Pair pair = TARRY__PAIR__INIT;
    request.body_case = TARRY__REQUEST__BODY_PAIR, request.pair = &pair;
    save_message("prepare", "seed-pair-status", &request.base);
    pair.what = TARRY__PAIR__WHAT__PROMOTE, pair.peer_is_stopped = true;
    save_message("prepare", "seed-pair-promote", &request.base);
    Tarry__Audit audit = TARRY__AUDIT__INIT;
    request.body_case = TARRY__REQUEST__BODY_AUDIT, request.audit = &audit;
    audit.position = LOG_POSITION_FIRST, audit.task = &by_key, audit.from_ms = 1, audit.to_ms = 2;
    audit.frames_max = 100, audit.size_max = 1000, audit.wait_ms = 500;
    save_message("prepare", "seed-audit", &request.base);
    save_message("request", "seed-audit", &request.base);
    audit = (Tarry__Audit)TARRY__AUDIT__INIT;
    audit.at_end = true;
    save_message("prepare", "seed-audit-end", &request.base);
}

/* Writes the life of a task: scheduled, leased, retried, moved, acked. Before it, a queue, a producer, an epoch. */
static void records(void) {
    Tarry__EpochPut epoch = TARRY__EPOCH_PUT__INIT;
    epoch.epoch = 1, epoch.server_version = "0";
    Tarry__Policy policy = TARRY__POLICY__INIT;
    Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
    queue.number = 1, queue.name = "orders", queue.policy = &policy;
    Tarry__ProducerPut producer = TARRY__PRODUCER_PUT__INIT;
    producer.producer = 1;
    Tarry__ProducerEnd producer_end = TARRY__PRODUCER_END__INIT;
    producer_end.producer = 1;
    struct row row = {.id = 1, .queue = 1, .due_ms = 1000, .key = "order-1", .key_size = 7, .blob_size = 20};
    static const uint8_t states[] = {ROW_WAITING, ROW_LEASED, ROW_WAITING, ROW_WAITING, ROW_BURIED};
    static const Tarry__Cause causes[] = {TARRY__CAUSE__CAUSE_SCHEDULED, TARRY__CAUSE__CAUSE_LEASED,
                                          TARRY__CAUSE__CAUSE_RETRIED, TARRY__CAUSE__CAUSE_MOVED,
                                          TARRY__CAUSE__CAUSE_BURIED};
    Tarry__Task tasks[5];
    Tarry__TaskPut puts[5];
    uint64_t before_hash = 0;
    for (int i = 0; i < 5; i++) {
        row.state = states[i], row.deliveries += i == 1, row.due_ms += 10, row.base = i >= 3 ? ROW_WALL : ROW_STEADY;
        tasks[i] = (Tarry__Task)TARRY__TASK__INIT;
        row_to_task(&row, &tasks[i]);
        puts[i] = (Tarry__TaskPut)TARRY__TASK_PUT__INIT;
        puts[i].cause = causes[i], puts[i].task = &tasks[i], puts[i].fresh = i == 0, puts[i].before_hash = before_hash;
        puts[i].before_state = i > 0 ? tasks[i - 1].state : TARRY__TASK__STATE__WAITING;
        puts[i].before_time_base = i > 0 ? tasks[i - 1].time_base : TARRY__TASK__BASE__STEADY;
        before_hash = row_hash(&row);
    }
    Tarry__TaskEnd end = TARRY__TASK_END__INIT;
    end.cause = TARRY__CAUSE__CAUSE_DROPPED, end.task = &tasks[4];
    Tarry__JobPut job = TARRY__JOB_PUT__INIT;
    job.job = 4096, job.queue = 1;
    Tarry__JobEnd job_end = TARRY__JOB_END__INIT;
    job_end.job = 4096;
    Tarry__ClockAccepted clock = TARRY__CLOCK_ACCEPTED__INIT;
    struct {
        Tarry__Record__FactCase fact;
        void *message;
    } facts[] = {{TARRY__RECORD__FACT_EPOCH, &epoch},
                 {TARRY__RECORD__FACT_QUEUE, &queue},
                 {TARRY__RECORD__FACT_PRODUCER, &producer},
                 {TARRY__RECORD__FACT_PUT, &puts[0]},
                 {TARRY__RECORD__FACT_PUT, &puts[1]},
                 {TARRY__RECORD__FACT_PUT, &puts[2]},
                 {TARRY__RECORD__FACT_PUT, &puts[3]},
                 {TARRY__RECORD__FACT_PUT, &puts[4]},
                 {TARRY__RECORD__FACT_JOB, &job},
                 {TARRY__RECORD__FACT_END, &end},
                 {TARRY__RECORD__FACT_JOB_END, &job_end},
                 {TARRY__RECORD__FACT_CLOCK, &clock},
                 {TARRY__RECORD__FACT_PRODUCER_END, &producer_end}};
    Tarry__Record items[13], *pointers[13];
    for (int i = 0; i < 13; i++) {
        items[i] = (Tarry__Record)TARRY__RECORD__INIT;
        items[i].fact_case = facts[i].fact;
        items[i].put = facts[i].message;
        pointers[i] = &items[i];
    }
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    body.records = pointers, body.producer = 1, body.sequence = 1, body.oldest_unanswered = 1;
    for (size_t n = 1; n <= 13; n += 3) {
        char name[32];
        body.n_records = n;
        snprintf(name, sizeof(name), "seed-%zu", n);
        save_message("record", name, &body.base);
        save_message("entry", name, &body.base);
    }
}

/* Writes records that only readers of the log use: start, consumer that connects, gets a task and leaves, stop. */
static void tales(void) {
    uint8_t digest[CONFIG_DIGEST_SIZE] = {0xab};
    uint32_t queue = 1;
    Tarry__EpochPut epoch = TARRY__EPOCH_PUT__INIT;
    epoch.epoch = 2, epoch.server_version = "0.1.0", epoch.before = TARRY__EPOCH_PUT__BEFORE__BROKEN_OFF;
    epoch.config_digest = (ProtobufCBinaryData){.len = sizeof(digest), .data = digest};
    Tarry__SessionPut session = TARRY__SESSION_PUT__INIT;
    session.session = 7, session.client = "worker", session.peer = "127.0.0.1:40312", session.prefetch = 10;
    session.queues = &queue, session.n_queues = 1, session.lease_ms = 60000, session.resumed = true;
    Tarry__Task task = TARRY__TASK__INIT;
    struct row row = {.id = 1, .queue = 1, .due_ms = 1000, .state = ROW_LEASED, .session = 7, .delivered_ms = 1500};
    row_to_task(&row, &task);
    task.lease_epoch = 2, task.lease_position = 4096, task.lease_deadline_ms = 61500;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    put.cause = TARRY__CAUSE__CAUSE_LEASED, put.task = &task, put.before_hash = 1, put.before_attempt = 1;
    put.before_session = 6, put.before_delivered_ms = 900;
    Tarry__SessionEnd end = TARRY__SESSION_END__INIT;
    end.session = 7, end.cause = TARRY__SESSION_END__CAUSE__PIPE_LOST, end.returned = 1;
    Tarry__StopPut stop = TARRY__STOP_PUT__INIT;
    stop.server_version = "0.1.0";
    Tarry__AccessRefused refused = TARRY__ACCESS_REFUSED__INIT;
    refused.why = TARRY__ACCESS_REFUSED__WHY__ROLE_LACKS, refused.address = "192.0.2.7", refused.principal = "shop";
    refused.what = "backup", refused.count = 3, refused.first_ms = 1500, refused.last_ms = 2500;
    uint8_t member[16] = {0xcd};
    Tarry__AlonePut alone = TARRY__ALONE_PUT__INIT;
    alone.why = TARRY__ALONE_PUT__WHY__TOLD, alone.since_ms = 1000, alone.alone_from = 4096;
    alone.member = (ProtobufCBinaryData){.len = sizeof(member), .data = member};
    struct {
        Tarry__Record__FactCase fact;
        void *message;
    } facts[] = {{TARRY__RECORD__FACT_EPOCH, &epoch},     {TARRY__RECORD__FACT_SESSION, &session},
                 {TARRY__RECORD__FACT_PUT, &put},         {TARRY__RECORD__FACT_SESSION_END, &end},
                 {TARRY__RECORD__FACT_REFUSED, &refused}, {TARRY__RECORD__FACT_ALONE, &alone},
                 {TARRY__RECORD__FACT_STOP, &stop}};
    Tarry__Record items[7], *pointers[7];
    for (int i = 0; i < 7; i++) {
        items[i] = (Tarry__Record)TARRY__RECORD__INIT;
        items[i].fact_case = facts[i].fact;
        items[i].put = facts[i].message;
        pointers[i] = &items[i];
    }
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    body.records = pointers, body.n_records = 7, body.client = "worker", body.peer = "127.0.0.1:40312";
    save_message("record", "seed-tales", &body.base);
    save_message("entry", "seed-tales", &body.base);
}

static void wheels(void) {
    uint8_t bytes[8 + 64 * 10], *at = put_u64(bytes, 1790000000000u);
    for (unsigned i = 0; i < 64; i++) {
        /* Each timer has a shorter delay than the one before. Every fifth step advances the time to the next expiry. */
        *at++ = i % 5 == 4 ? 3 : (uint8_t)(4 * i);
        *at++ = (uint8_t)(i * 7);
        at = put_u64(at, 0x9e3779b97f4a7c15u * (i + 1));
    }
    save("wheel", "seed-delays", bytes, (size_t)(at - bytes));
    save("wheel", "seed-short", bytes, 8 + 5 * 10);
}

/* ---- texts of people and tools */

static void texts(void) {
    static const struct {
        const char *target, *name, *text;
        size_t head; /* number of bytes before the text; the last is `first`, the others are zeros */
        char first;
    } seeds[] = {
        {"config", "seed-file", "[tarryd]\ndata = /var/lib/tarry\nmemory = 128MiB ; enough\nlease=1m\n", 1, 0},
        {"config", "seed-comment-longer-than-a-line-of-inih",
         "; A comment that goes on for longer than inih takes for one line, which is two hundred bytes, so that its "
         "end "
         "would be read as a line of its own, and what stands in it would be believed as well as any other option: "
         "memory = 1GiB\ndata = /d\n",
         1, 0},
        {"config", "seed-comment-said-again",
         "lease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\n"
         "lease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\n"
         "lease = 30s\nlease = 30s\nlease = 30s\nlease = 30s\n",
         1, 0},
        {"lines", "seed-schedule",
         "{\"queue\":\"orders\",\"key\":\"order-1\",\"delay_ms\":1.5e3,\"body\":\"k\\u00e4se\",\"priority\":9}\n"
         "{\"queue\":\"q\",\"due_ms\":1790000000000,\"body_base64\":\"AAECgA==\",\"attributes\":{\"a\":\"b\"},"
         "\"on_conflict\":\"later\",\"expires_ms\":5}\r\n",
         1, 40},
        {"lines", "seed-refer", "{\"id\":\"42\",\"withdraw\":true}\n{\"queue\":\"q\",\"key\":\"k\",\"due_ms\":1}", 1,
         0},
        {"units", "seed-duration", "1h30m15s250ms", 9, 0},
        {"units", "seed-size", "18014398509481983KiB", 9, 0},
        {"units", "seed-time", "2024-02-29T23:59:60.0001+05:30", 9, 2},
        {"units", "seed-last-time", "9999-12-31T23:59:59.999-12:00", 9, 3},
    };
    char bytes[1024];
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        size_t size = strlen(seeds[i].text);
        memset(bytes, 0, seeds[i].head);
        bytes[seeds[i].head - 1] = seeds[i].first;
        memcpy(bytes + seeds[i].head, seeds[i].text, size);
        save(seeds[i].target, seeds[i].name, bytes, seeds[i].head + size);
    }
    uint8_t arguments[64] = {2};
    memcpy(arguments + 1, "--data=/d\0--config\0memory=1GiB\n", 32);
    save("config", "seed-arguments", arguments, 33);
    /* A time that its zone's offset of a whole hour moves into the year 10000, and a time in a zone whose offset has
     * seconds. */
    uint8_t number[9];
    put_u64(number, 253402300790016u / 32 * 32), number[8] = 3;
    save("units", "seed-year-10000", number, sizeof(number));
    put_u64(number, 1000000000000u / 32 * 32), number[8] = 2;
    save("units", "seed-zone-with-seconds", number, sizeof(number));
}

/* ---- data for a client */

static void answers(void) {
    Tarry__Token token = TARRY__TOKEN__INIT;
    token.epoch = 1, token.position = 4096;
    Tarry__DeliveredTask tasks[2] = {TARRY__DELIVERED_TASK__INIT, TARRY__DELIVERED_TASK__INIT};
    Tarry__DeliveredTask *pointers[2] = {&tasks[0], &tasks[1]};
    for (unsigned i = 0; i < 2; i++) {
        tasks[i].id = 41 + i, tasks[i].queue = "orders", tasks[i].attempt = 1, tasks[i].token = &token;
        tasks[i].key = (ProtobufCBinaryData){.len = 7, .data = (uint8_t *)"order-1"};
        tasks[i].content = (ProtobufCBinaryData){.len = content_size, .data = content_bytes};
    }
    Tarry__Delivery delivery = TARRY__DELIVERY__INIT;
    delivery.session = 1, delivery.tasks = pointers, delivery.n_tasks = 2;
    uint8_t bytes[1024], *at = bytes;
    for (unsigned round = 0; round < 2;
         round++) { /* first the same leases twice, then later ones; tasks are taken after each delivery */
        size_t size = tarry__delivery__pack(&delivery, at + 2);
        at[0] = (uint8_t)size, at[1] = (uint8_t)(size >> 8);
        at += 2 + size;
        *at++ = 0, *at++ = 0, *at++ = 0;
        token.position += round * 112;
    }
    save("delivery", "seed-twice", bytes, (size_t)(at - bytes));
    Tarry__Quantiles quantiles = TARRY__QUANTILES__INIT;
    quantiles.count = 3, quantiles.p50 = 1, quantiles.max = 1e9;
    Tarry__QueueStats queue = TARRY__QUEUE_STATS__INIT, *queue_pointer = &queue;
    queue.name = "a \"queue\"\\\n", queue.pending = 7, queue.lateness_ms = &quantiles;
    Tarry__BrokerStats broker = TARRY__BROKER_STATS__INIT;
    broker.version = "1", broker.fsync_us = &quantiles;
    Tarry__StatsReply stats = TARRY__STATS_REPLY__INIT;
    stats.queues = &queue_pointer, stats.n_queues = 1, stats.broker = &broker;
    save_message("metrics", "seed-one-queue", &stats.base);
    Tarry__PairStats pair = TARRY__PAIR_STATS__INIT;
    Tarry__AmqpStats amqp = TARRY__AMQP_STATS__INIT;
    Tarry__PushTarget targets[2] = {TARRY__PUSH_TARGET__INIT, TARRY__PUSH_TARGET__INIT};
    Tarry__PushTarget *target_pointers[2] = {&targets[0], &targets[1]};
    targets[0].queue = "hooked", targets[0].sent = 3, targets[1].queue = "b", targets[1].status = 503;
    amqp.connections = 1, amqp.exchanges = 5, pair.epoch = 2;
    broker.pair = &pair, broker.amqp = &amqp, broker.push = target_pointers, broker.n_push = 2;
    save_message("metrics", "seed-webhooks-amqp-pair", &stats.base);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: make_seeds DIR\n");
        return 2;
    }
    root = argv[1];
    frames();
    contents();
    requests();
    questions();
    records();
    tales();
    wheels();
    texts();
    answers();
    return 0;
}
