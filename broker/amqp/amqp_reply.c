/* amqp_reply.c: direct reply-to. A client that consumes from the pseudo-queue amq.rabbitmq.reply-to gets replies on its
 * channel, at most once: they are in no queue and not in the log. Its requests carry the address of the channel in
 * `reply_to`: the prefix, the ids of connection and channel, and a random secret, so that no other client can guess it.
 */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amqp_parts.h"
#include "door_stream.h"

#define REPLY_QUEUE "amq.rabbitmq.reply-to"
#define REPLY_PREFIX REPLY_QUEUE "."

bool reply_is_queue(struct amqp_bytes name) {
    return amqp_is(name, REPLY_QUEUE);
}

bool reply_is_address(struct amqp_bytes key) {
    return amqp_begins(key, REPLY_PREFIX);
}

static void address_of(const struct channel *channel, char out[REPLY_ADDRESS_SIZE]) {
    snprintf(out, REPLY_ADDRESS_SIZE, REPLY_PREFIX "%" PRIu64 ".%" PRIu64 ".%s", channel->connection->id,
             channel->serial, channel->reply->secret);
}

void reply_consume(struct channel *channel, const struct amqp_method *method, struct amqp_bytes tag) {
    struct amqp_connection *connection = channel->connection;
    uint8_t random[(REPLY_SECRET_SIZE - 1) / 2];
    if (method->fields[AMQP_BASIC_CONSUME_no_ack].number == 0) {
        channel_fail(channel, AMQP_PRECONDITION, method->kind,
                     "PRECONDITION_FAILED - reply consumer cannot acknowledge: consume with no-ack");
        return;
    }
    if (channel->reply != NULL) {
        channel_fail(channel, AMQP_PRECONDITION, method->kind, "PRECONDITION_FAILED - reply consumer already set");
        return;
    }
    struct reply *reply = calloc(1, sizeof(*reply) + tag.size);
    if (reply == NULL) {
        client_fail(connection, AMQP_RESOURCE_ERROR, "RESOURCE_ERROR - out of memory");
        return;
    }
    randombytes_buf(random, sizeof(random));
    sodium_bin2hex(reply->secret, sizeof(reply->secret), random, sizeof(random));
    memcpy(reply->tag_bytes, tag.at, tag.size);
    reply->tag = (struct amqp_bytes){reply->tag_bytes, tag.size};
    channel->reply = reply;
    if (method->fields[AMQP_BASIC_CONSUME_no_wait].number == 0)
        amqp_put_method(&connection->out, channel->number, AMQP_BASIC_CONSUME_OK, tag);
}

bool reply_cancel(struct channel *channel, struct amqp_bytes tag) {
    const struct reply *reply = channel->reply;
    if (reply == NULL || !amqp_same(tag, reply->tag)) return false;
    reply_end(channel);
    return true;
}

void reply_end(struct channel *channel) {
    free(channel->reply);
    channel->reply = NULL;
}

bool reply_address(const struct channel *channel, char out[REPLY_ADDRESS_SIZE]) {
    if (channel->reply == NULL) return false;
    address_of(channel, out);
    return true;
}

/* Returns the channel with this address; NULL: it has ended, or never existed. */
static struct channel *find(const struct amqp *server, struct amqp_bytes address) {
    struct amqp_connection *connection;
    struct channel *channel;
    char text[AMQP_SHORTSTR_MAX + 1], its[REPLY_ADDRESS_SIZE];
    unsigned long long id, serial;
    memcpy(text, address.at, address.size);
    text[address.size] = '\0';
    if (sscanf(text + sizeof(REPLY_PREFIX) - 1, "%19llu.%19llu.", &id, &serial) != 2) return NULL;
    TAILQ_FOREACH(connection, &server->connections, all) {
        // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
        if (connection->id != id || connection->phase != PHASE_RUNS) continue;
        TAILQ_FOREACH(channel, &connection->channels, next) {
            // cppcheck-suppress uninitvar ; TAILQ_FOREACH sets it
            if (channel->serial != serial || channel->reply == NULL || channel->is_closing) continue;
            address_of(channel, its);
            bool is_it = strlen(its) == address.size && sodium_memcmp(its, text, address.size) == 0;
            return is_it ? channel : NULL;
        }
    }
    return NULL;
}

bool reply_has_consumer(const struct amqp *server, struct amqp_bytes address) {
    return find(server, address) != NULL;
}

bool reply_deliver(const struct amqp *server, struct amqp_bytes address, struct amqp_bytes properties,
                   struct amqp_bytes body) {
    struct channel *channel = find(server, address);
    if (channel == NULL) return false;
    struct amqp_connection *connection = channel->connection;
    /* The replies of a client that does not read are dropped, so that they do not fill the memory (CAP-1). */
    if (door_stream_unsent(server->door, connection->id) >= AMQP_UNSENT_MAX) return true;
    amqp_put_method(&connection->out, channel->number, AMQP_BASIC_DELIVER, channel->reply->tag, channel->next_tag++, 0u,
                    amqp_text(""), address);
    amqp_put_content(&connection->out, channel->number, connection->frame_max, properties, body);
    client_send_out(connection);
    return true;
}
