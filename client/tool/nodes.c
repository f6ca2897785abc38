/* nodes.c: see nodes.h. */
#include "nodes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

int nodes_open(struct nodes *nodes, const struct tool *tool, uint64_t timeout_ms) {
    const char *at = tool->broker != NULL ? tool->broker : TARRY_DEFAULT_URL;
    *nodes = (struct nodes){.count = 0};
    for (;;) {
        size_t size = strcspn(at, ",");
        if (nodes->count == NODES_MAX) {
            tool_say("--broker gives more than %u brokers", NODES_MAX);
            return EXIT_USAGE;
        }
        struct node *node = &nodes->items[nodes->count++];
        node->url = tool_strdup(at);
        node->url[size] = 0;
        int status = tool_connect_to(tool, node->url, timeout_ms, &node->client);
        if (status != EXIT_FINE) return status;
        if (at[size] == 0) return EXIT_FINE;
        at += size + 1;
    }
}

void nodes_close(struct nodes *nodes) {
    for (size_t i = 0; i < nodes->count; i++) {
        tarry_pair_free(nodes->items[i].view);
        tarry_close(nodes->items[i].client);
        free(nodes->items[i].url);
    }
    nodes->count = 0;
}

void node_take(struct node *node, int code, struct tarry_pair_view *view, const char *message) {
    tarry_pair_free(node->view);
    node->view = code == TARRY_OK ? view : NULL;
    node->code = code;
    bool is_said = message != NULL && message[0] != 0;
    if (code != TARRY_OK)
        snprintf(node->message, sizeof(node->message), "%s", is_said ? message : tarry_code_sentence(code));
}

void node_ask(struct node *node) {
    struct tarry_pair_view *view = NULL;
    char message[TARRY_MESSAGE_SIZE];
    int code = tarry_pair_status(node->client, NULL, &view, message);
    node_take(node, code, view, message);
}

static void *ask_run(void *argument) {
    node_ask(argument);
    return NULL;
}

void nodes_ask(struct nodes *nodes) {
    pthread_t threads[NODES_MAX];
    bool is_asked[NODES_MAX] = {false};
    for (size_t i = 1; i < nodes->count; i++)
        is_asked[i] = pthread_create(&threads[i], NULL, ask_run, &nodes->items[i]) == 0;
    for (size_t i = 0; i < nodes->count; i++)
        if (!is_asked[i]) node_ask(&nodes->items[i]);
    for (size_t i = 1; i < nodes->count; i++)
        if (is_asked[i]) pthread_join(threads[i], NULL);
}

bool node_is_primary(const struct node *node) {
    return node->view != NULL && (node->view->role == TARRY_PRIMARY || node->view->role == TARRY_HANDING_OVER);
}
