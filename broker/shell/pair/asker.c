/* asker.c: see asker.h. SENDING → RECEIVING → answered, or failed at either. */
#include "asker.h"

#include <nng/protocol/reqrep0/req.h>
#include <stdio.h>
#include <stdlib.h>

#include "tarry_limits.h"

/* How long after a failed dial the next one follows. */
#define DIAL_AGAIN_MIN_MS 20
#define DIAL_AGAIN_MAX_MS 200

static void send_question(struct asker *asker, nng_msg *question, int time_ms) {
    asker->busy = asker->sending = true;
    asker->time_ms = time_ms;
    nng_aio_set_timeout(asker->aio, time_ms);
    nng_aio_set_msg(asker->aio, question);
    nng_ctx_send(asker->context, asker->aio);
}

static nng_msg *take_message(struct asker *asker) {
    nng_msg *message = nng_aio_get_msg(asker->aio);
    nng_aio_set_msg(asker->aio, NULL);
    return message;
}

/* The aio is idle now, so it may be used again under the mutex. */
static void asker_event(void *argument) {
    struct asker *asker = argument;
    int error = nng_aio_result(asker->aio);
    nng_msg *answer = NULL;
    pthread_mutex_lock(&asker->mutex);
    if (asker->sending && error == 0 && asker->next == NULL && !asker->closed) {
        asker->sending = false;
        nng_aio_set_timeout(asker->aio, asker->time_ms);
        nng_ctx_recv(asker->context, asker->aio);
        pthread_mutex_unlock(&asker->mutex);
        return;
    }
    if (error != 0 && asker->sending)
        nng_msg_free(take_message(asker)); /* it was not taken over */
    else if (error == 0 && !asker->sending)
        answer = take_message(asker);
    asker->busy = false;
    bool tells = !asker->closed && asker->next == NULL;
    if (asker->next != NULL && !asker->closed) {
        nng_msg *next = asker->next;
        asker->next = NULL;
        send_question(asker, next, asker->next_ms);
    }
    pthread_mutex_unlock(&asker->mutex);
    if (tells)
        asker->answered(asker->argument, answer);
    else
        nng_msg_free(answer);
}

int asker_open(struct asker *asker, const char *url, size_t answer_size_max,
               void (*answered)(void *argument, nng_msg *answer), void *argument) {
    char address[URL_SIZE_MAX + 8];
    nng_dialer dialer;
    *asker = (struct asker){.answered = answered, .argument = argument};
    pthread_mutex_init(&asker->mutex, NULL);
    snprintf(address, sizeof(address), "%s/rpc", url);
    int error = nng_req0_open(&asker->socket);
    if (error == 0) error = nng_aio_alloc(&asker->aio, asker_event, asker);
    if (error == 0) error = nng_socket_set_ms(asker->socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
    if (error == 0) error = nng_socket_set_ms(asker->socket, NNG_OPT_RECONNMINT, DIAL_AGAIN_MIN_MS);
    if (error == 0) error = nng_socket_set_ms(asker->socket, NNG_OPT_RECONNMAXT, DIAL_AGAIN_MAX_MS);
    if (error == 0) error = nng_socket_set_size(asker->socket, NNG_OPT_RECVMAXSZ, answer_size_max);
    if (error == 0) error = nng_ctx_open(&asker->context, asker->socket);
    if (error == 0) error = nng_dialer_create(&dialer, asker->socket, address);
    if (error == 0) error = nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
    return error;
}

void asker_ask(struct asker *asker, nng_msg *question, int time_ms) {
    pthread_mutex_lock(&asker->mutex);
    if (asker->closed) {
        nng_msg_free(question);
    } else if (!asker->busy) {
        send_question(asker, question, time_ms);
    } else {
        nng_msg_free(asker->next);
        asker->next = question;
        asker->next_ms = time_ms;
        nng_aio_cancel(asker->aio); /* its end sends the next one */
    }
    pthread_mutex_unlock(&asker->mutex);
}

void asker_close(struct asker *asker) {
    pthread_mutex_lock(&asker->mutex);
    asker->closed = true;
    nng_msg_free(asker->next);
    asker->next = NULL;
    bool busy = asker->busy;
    pthread_mutex_unlock(&asker->mutex);
    if (busy) nng_aio_cancel(asker->aio);
}
