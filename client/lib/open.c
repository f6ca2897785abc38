/* open.c: opening and closing of a client. */
#include "client.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int client_take(tarry_client *client, const struct tarry_options *options) {
    if (options->commits_in_flight > COMMITS_IN_FLIGHT_MAX) return TARRY_E_ARGUMENT;
    client->timeout_ms = options->timeout_ms != 0 ? options->timeout_ms : TIMEOUT_DEFAULT_MS;
    client->commits_in_flight = options->commits_in_flight != 0 ? options->commits_in_flight : 1;
    client->queued_size_max = options->queued_size_max != 0 ? options->queued_size_max : QUEUED_SIZE_MAX_DEFAULT;
    if (options->name != NULL) {
        snprintf(client->name, sizeof(client->name), "%s", options->name);
    } else {
        snprintf(client->name, sizeof(client->name), "%.64s/%ld", program_invocation_short_name, (long)getpid());
    }
    int rv = credentials_take(&client->credentials, options);
    if (rv != TARRY_OK) return rv;
    client->follower_reads = options->follower_reads;
    client->on_event = options->on_event;
    client->event_arg = options->event_arg;
    client->link.hint = ADDRESSES_MAX;
    return addresses_parse(&client->link.addresses, options->urls);
}

/* Frees what tarry_open has allocated, in any state of completion; the engine does not run. */
static void client_free(tarry_client *client) {
    pthread_mutex_lock(&client->lock);
    link_end(client);
    pthread_mutex_unlock(&client->lock);
    ws_client_deinit(&client->link.connection);
    loop_close(&client->loop);
    credentials_drop(&client->credentials);
    for (uint32_t i = 0; i < SLOTS_MAX; i++) packet_deinit(&client->slots[i].packet);
    while (client->pool != NULL) {
        struct request *next = client->pool->links[IN_QUEUE].next;
        request_destroy(client->pool);
        client->pool = next;
    }
    pthread_mutex_lock(&client->lock);
    events_tell(client); /* reports events that occurred while the link was being closed */
    pthread_mutex_unlock(&client->lock);
    dispatch_close(client);
    timers_deinit(&client->deadlines);
    timers_deinit(&client->retries);
    names_deinit(&client->names);
    pthread_cond_destroy(&client->drained);
    pthread_cond_destroy(&client->turned);
    pthread_mutex_destroy(&client->lock);
    free(client);
}

/* A program built with a newer header may read fields of tasks and views that this library does not have. */
static bool is_newer(uint32_t header_version) {
    const uint32_t patches = 1000;
    return header_version / patches > TARRY_VERSION_NUMBER / patches;
}

/* Blocks signals before the first connection attempt, because the thread that looks up the host name inherits the
 * signal mask. */
static int engine_start(tarry_client *client) {
    sigset_t before;
    pthread_mutex_lock(&client->lock);
    signals_block(&before);
    link_begin(client);
    signals_restore(&before);
    int rv = thread_start(&client->engine, engine_run, client, "tarry-engine");
    pthread_mutex_unlock(&client->lock);
    return rv;
}

int tarry_open_version(const struct tarry_options *given, uint32_t header_version, tarry_client **out_client) {
    struct tarry_options options;
    if (out_client == NULL) return TARRY_E_ARGUMENT;
    if (is_newer(header_version) || OPTIONS_TAKE(options, given) != TARRY_OK) return TARRY_E_VERSION;
    unsigned process;
    int rv = process_enter(&process);
    if (rv != TARRY_OK) return rv;
    tarry_client *client = calloc(1, sizeof(*client));
    if (client == NULL) return TARRY_E_NOMEM;
    client->process = process;
    client->request_max = REQUEST_SIZE_MAX;
    pthread_mutex_init(&client->lock, NULL);
    ws_client_init(&client->link.connection);
    cond_init_monotonic(&client->drained);
    cond_init_monotonic(&client->turned);
    rv = client_take(client, &options);
    int opened = dispatch_open(client, options.dispatch);
    if (rv == TARRY_OK) rv = opened;
    opened = loop_open(&client->loop);
    if (rv == TARRY_OK) rv = opened;
    if (rv == TARRY_OK) rv = engine_start(client);
    if (rv != TARRY_OK) {
        client_free(client);
        return rv;
    }
    *out_client = client;
    return TARRY_OK;
}

#define GOODBYE_TAG "\x80\0\0\x1f" /* a request number that no slot uses */

/* Sends Goodbye for the producer (ONCE-1), if the broker is connected. */
static void say_goodbye(tarry_client *client) {
    if (client->producer == 0 || !client->link.up) return;
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Goodbye goodbye = TARRY__GOODBYE__INIT;
    goodbye.producer = client->producer;
    wire.version = WIRE_VERSION;
    wire.client = client->name;
    wire.body_case = TARRY__REQUEST__BODY_GOODBYE;
    wire.goodbye = &goodbye;
    struct packet packet = {.data = NULL};
    uint8_t *room = packet_reserve(&packet, REQUEST_ID_SIZE + tarry__request__get_packed_size(&wire));
    if (room == NULL) return;
    memcpy(room, GOODBYE_TAG, REQUEST_ID_SIZE);
    tarry__request__pack(&wire, room + REQUEST_ID_SIZE);
    link_ask_last(client, &packet, GOODBYE_TIMEOUT_MS);
    packet_deinit(&packet);
}

/* Closing is refused while a consumer is open: its handler or another thread would use a freed client. */
static int may_close(tarry_client *client) {
    int rv = may_block(client);
    if (rv != TARRY_OK) return rv;
    pthread_mutex_lock(&client->lock);
    rv = sessions_may_close(client);
    pthread_mutex_unlock(&client->lock);
    return rv;
}

int tarry_close(tarry_client *client) {
    if (client == NULL) return TARRY_OK;
    int rv = may_close(client);
    if (rv == TARRY_OK && dispatch_is_me(client)) rv = TARRY_E_CALLBACK;
    if (rv != TARRY_OK) return rv;
    pthread_mutex_lock(&client->lock);
    client->closing = true;
    pthread_cond_broadcast(&client->drained);
    engine_kick(client);
    pthread_mutex_unlock(&client->lock);
    pthread_join(client->engine, NULL);
    say_goodbye(client);
    client_free(client);
    return TARRY_OK;
}

int tarry_drain(tarry_client *client, size_t pending_max, const struct tarry_call *given) {
    struct tarry_call call;
    int rv = OPTIONS_TAKE(call, given);
    if (rv == TARRY_OK) rv = may_block(client);
    if (rv != TARRY_OK) return rv;
    pthread_mutex_lock(&client->lock);
    /* Time by which every call that was submitted before tarry_drain has ended. Calls that other threads submit
     * meanwhile may still be unanswered. */
    const uint64_t until_ms = deadline_of(client, now_ms() + DRAIN_GRACE_MS, timeout_of(call.timeout_ms));
    while (client->pending > pending_max && !client->closing && rv == TARRY_OK)
        if (!wait_drained(client, until_ms)) rv = TARRY_E_TIMEOUT;
    if (client->closing) rv = TARRY_E_CLOSED;
    pthread_mutex_unlock(&client->lock);
    return rv;
}

uint64_t tarry_silence_ms(tarry_client *client) {
    if (may_call(client) != TARRY_OK) return 0;
    pthread_mutex_lock(&client->lock);
    uint64_t silence_ms = 0, now = now_ms();
    /* While a broker is connected, requests that wait at the broker for new frames (audits) do not count as unanswered.
     */
    if (client->waiting > (link_is_ready(&client->link) ? client->polls : 0)) {
        uint64_t since =
            client->answered_ms > client->waiting_since_ms ? client->answered_ms : client->waiting_since_ms;
        if (now > since) silence_ms = now - since;
    }
    pthread_mutex_unlock(&client->lock);
    return silence_ms;
}

static uint64_t earlier(uint64_t since_ms, uint64_t busy_since_ms) {
    return busy_since_ms != 0 && busy_since_ms < since_ms ? busy_since_ms : since_ms;
}

/* Returns the time since when operations wait because of BUSY; UINT64_MAX: none wait. Counts only requests that the
 * broker has refused. */
static uint64_t busy_since(const tarry_client *client) {
    uint64_t since_ms = UINT64_MAX;
    for (int rank = 0; rank < COMMIT_RANKS; rank++) since_ms = earlier(since_ms, client->commits[rank].busy_since_ms);
    for (size_t i = 0; i < client->retries.count; i++) {
        const char *timer = (const char *)client->retries.items[i];
        since_ms =
            earlier(since_ms, ((const struct request *)(timer - offsetof(struct request, retry)))->busy_since_ms);
    }
    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (client->slots[i].request != NULL) since_ms = earlier(since_ms, client->slots[i].request->busy_since_ms);
    return since_ms;
}

uint64_t tarry_busy_ms(tarry_client *client, char out_reason[TARRY_MESSAGE_SIZE]) {
    message_set(out_reason, "");
    if (may_call(client) != TARRY_OK) return 0;
    char reason[MESSAGE_SIZE_MAX];
    pthread_mutex_lock(&client->lock);
    uint64_t since_ms = busy_since(client), now = now_ms();
    snprintf(reason, sizeof(reason), "%s", client->busy_reason);
    pthread_mutex_unlock(&client->lock);
    if (since_ms == UINT64_MAX) return 0;
    message_set(out_reason, reason);
    return now > since_ms ? now - since_ms : 1;
}

char *tarry_addresses_say(tarry_client *client, char text[TARRY_MESSAGE_SIZE]) {
    if (text == NULL) return NULL;
    text[0] = 0;
    if (may_call(client) != TARRY_OK) return text;
    pthread_mutex_lock(&client->lock);
    link_tell(client, text, TARRY_MESSAGE_SIZE);
    pthread_mutex_unlock(&client->lock);
    return text;
}

int tarry_ping(tarry_client *client, const struct tarry_call *given) {
    struct tarry_call taken;
    if (client == NULL) return TARRY_E_ARGUMENT;
    int rv = OPTIONS_TAKE(taken, given);
    if (rv != TARRY_OK) return rv;
    /* Sends a heartbeat for session 0, which never exists. Any reply shows that the broker answers. */
    Tarry__Request wire = TARRY__REQUEST__INIT;
    Tarry__Heartbeat heartbeat = TARRY__HEARTBEAT__INIT;
    wire.body_case = TARRY__REQUEST__BODY_HEARTBEAT;
    wire.heartbeat = &heartbeat;
    struct call call;
    rv = call_run_within(client, &wire, timeout_of(taken.timeout_ms), &call, NULL);
    call_end(&call);
    return rv == TARRY_NO_SUCH_SESSION ? TARRY_OK : rv;
}
