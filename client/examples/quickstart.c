/* quickstart.c: schedule, cancel, consume. */
#include <stdio.h>
#include <tarry.h>

int main(void) {
    tarry_client *client;
    if (tarry_open(NULL, &client) != TARRY_OK) return 1;

    /* An order is placed; if it is not paid within two seconds it is closed. */
    struct tarry_schedule_options close_order = {.queue = "close-order", .key = "order-1", .when_ms = 2000};
    struct tarry_result result;
    if (tarry_schedule(client, &close_order, &result) != TARRY_OK) printf("order-1: %s\n", result.message);
    close_order.key = "order-2";
    if (tarry_schedule(client, &close_order, &result) != TARRY_OK) printf("order-2: %s\n", result.message);

    /* Order 1 is paid in time. With deliveries = 0 no consumer has seen the task, and none ever will. */
    struct tarry_ref paid = {.queue = "close-order", .key = "order-1"};
    if (tarry_cancel(client, &paid, false, NULL, &result) == TARRY_OK)
        printf("order-1 paid, %u seen\n", result.deliveries);

    /* Order 2 is not paid. */
    const char *queue = "close-order";
    struct tarry_consumer_options options = {.queues = &queue, .queue_count = 1};
    tarry_consumer *consumer;
    const struct tarry_task *task;
    if (tarry_consumer_open(client, &options, &consumer, NULL) != TARRY_OK) return 1;
    if (tarry_consumer_next(consumer, 5000, &task) == TARRY_OK) {
        printf("%s closed %d ms after it was due\n", task->key, (int)(task->received_ms - task->due_ms));
        tarry_ack(client, task->id, task->token, NULL, NULL);
        tarry_task_free(task);
    }
    tarry_consumer_close(consumer, 0, NULL);
    tarry_close(client);
    return 0;
}
