/* order_timeout.c: demonstration: an order that is not paid within 30 minutes is closed.
 *
 * It plays a day of orders faster than real time. Each order schedules its closing under its own number, and its
 * payment cancels the closing. Consumers in separate processes close the orders that fall due. A ledger that is
 * independent of the broker checks every order at the end, even if processes were killed meanwhile. See README.md
 * beside this file.
 *
 *   orders ──► events in order of time ──► schedule, cancel ──► replies ──┐
 *                                                                         ├─► ledger ──► summary, exit status
 *                         closers (processes) ◄── broker      lines of JSON ┘ */
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarry.h>
#include <time.h>

#include "closers.h"
#include "ledger.h"
#include "orders.h"
#include "picture.h"

/* Wait in seconds after the last event until every order must be settled; much longer than the leases of a dead
 * consumer. */
#define SETTLE_PATIENCE_S 120
#define AFTERMATH_US 300000 /* µs of waiting after all orders are settled; no order may be closed in this time */

struct settings {
    const char *broker;
    const char *orders;
    const char *queue;
    const char *role;
    uint64_t limit_s;
    double speed;
    uint64_t seed;
    size_t count;
    size_t consumers;
    uint64_t timeout_ms;
};

enum event_kind { PLACED, PAID };
struct event {
    double at_s; /* time of the event: second of the day */
    size_t order;
    enum event_kind kind;
};

struct play {
    struct settings settings;
    struct orders orders;
    struct event *events;
    size_t event_count;
    struct ledger *ledger;
    struct closers closers;
    struct picture picture;
    tarry_client *client;
    uint64_t delay_ms;
    double day_s; /* second of the day that the demonstration has reached */
};

/* An operation whose reply has not come yet. */
struct asked {
    struct play *play;
    size_t order;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

static uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the day's events */

static int compare_events(const void *a, const void *b) {
    const struct event *x = a, *y = b;
    if (x->at_s != y->at_s) return x->at_s < y->at_s ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Makes the events of the day. Some payments come after the limit, too late. The simulation includes them only if they
 * come within twice the limit after the order, because later ones would only make the simulated day longer. */
static int make_events(struct play *play) {
    play->events = calloc(2 * play->orders.count, sizeof(*play->events));
    if (play->events == NULL) return -1;
    for (size_t i = 0; i < play->orders.count; i++) {
        const struct order *order = &play->orders.items[i];
        play->events[play->event_count++] = (struct event){(double)order->placed_s, i, PLACED};
        if (order->paid_after >= 0 && (uint64_t)order->paid_after <= 2 * play->settings.limit_s)
            play->events[play->event_count++] =
                (struct event){(double)order->placed_s + (double)order->paid_after, i, PAID};
    }
    qsort(play->events, play->event_count, sizeof(*play->events), compare_events);
    return 0;
}

/* ---- actions of the shop */

static void placed_answer(void *arg, const struct tarry_result *result) {
    struct asked asked = *(struct asked *)arg;
    free(arg);
    if (result->code == TARRY_OK)
        ledger_placed(asked.play->ledger, asked.order);
    else
        ledger_refused(asked.play->ledger, "not_placed", asked.order, result->message);
}

static void paid_answer(void *arg, const struct tarry_result *result) {
    struct asked asked = *(struct asked *)arg;
    free(arg);
    struct ledger *ledger = asked.play->ledger;
    if (result->code == TARRY_OK) {
        ledger_paid(ledger, asked.order, result->deliveries);
    } else if (result->code == TARRY_NOT_DONE &&
               (result->outcome == TARRY_IN_FLIGHT || result->outcome == TARRY_ACKED)) {
        ledger_late(ledger, asked.order); /* the order is closed already (TRUE-1), so the payment is refunded */
    } else {
        ledger_refused(ledger, "payment_refused", asked.order, result->message);
    }
}

static int submit(struct play *play, const struct event *event) {
    const char *id = play->orders.items[event->order].id;
    struct asked *asked = malloc(sizeof(*asked));
    if (asked == NULL) return TARRY_E_NOMEM;
    *asked = (struct asked){play, event->order};
    int rv;
    do {
        if (event->kind == PLACED) {
            struct tarry_schedule_options options = {.queue = play->settings.queue,
                                                     .key = id,
                                                     .when_ms = play->delay_ms,
                                                     .payload = id,
                                                     .payload_size = strlen(id)};
            ledger_submitted(play->ledger, event->order, now_us());
            rv = tarry_schedule_async(play->client, &options, placed_answer, asked);
        } else {
            struct tarry_ref ref = {.queue = play->settings.queue, .key = id};
            rv = tarry_cancel_async(play->client, &ref, false, NULL, paid_answer, asked);
        }
    } while (rv == TARRY_E_FULL && tarry_drain(play->client, 0, NULL) == TARRY_OK);
    if (rv != TARRY_OK) free(asked);
    return rv;
}

/* Reads the closers' lines for up to `wait_ms`, and draws the picture if it is due. */
static void look(struct play *play, int wait_ms) {
    size_t alive = closers_read(&play->closers, play->ledger, wait_ms);
    if (!picture_is_due(&play->picture, now_us())) return;
    struct ledger_totals totals;
    ledger_totals(play->ledger, &totals);
    struct picture_now now = {&totals, (uint64_t)play->day_s, play->settings.speed, alive,
                              tarry_silence_ms(play->client)};
    picture_draw(&play->picture, &now);
}

static int play_day(struct play *play) {
    uint64_t begin = now_us();
    double first_s = play->events[0].at_s;
    for (size_t i = 0; i < play->event_count && !interrupted; i++) {
        uint64_t due_us = begin + (uint64_t)((play->events[i].at_s - first_s) / play->settings.speed * 1e6);
        for (uint64_t now = now_us(); now < due_us && !interrupted; now = now_us()) {
            play->day_s = first_s + (double)(now - begin) / 1e6 * play->settings.speed;
            look(play, due_us - now >= 10000 ? 10 : (int)((due_us - now + 999) / 1000));
        }
        if (i % 256 == 0) look(play, 0);
        int rv = submit(play, &play->events[i]);
        if (rv == TARRY_OK) continue;
        fprintf(stderr, "order_timeout: %s\n", tarry_code_sentence(rv));
        return -1;
    }
    return 0;
}

/* Waits until every order is paid or closed, and then for AFTERMATH_US, in which no order may be closed. */
static void settle(struct play *play) {
    uint64_t until = now_us() + SETTLE_PATIENCE_S * 1000000ull + play->delay_ms * 1000;
    while (!ledger_is_settled(play->ledger) && now_us() < until && !interrupted) look(play, 20);
    /* Wait for the remaining replies to payments; their orders may have been closed at the same time. tarry_drain fails
     * if the broker cannot be reached. */
    if (!interrupted && tarry_drain(play->client, 0, NULL) != TARRY_OK) interrupted = 1;
    until = now_us() + AFTERMATH_US;
    while (now_us() < until && !interrupted) look(play, 20);
    play->picture.drawn_us = 0;
    look(play, 0);
}

/* ---- the end */

static int judge(struct play *play, double took_s) {
    struct ledger_totals totals;
    ledger_totals(play->ledger, &totals);
    printf("a day of %zu orders in %.1f s (%.0f times faster than life), limit %" PRIu64 " s = %" PRIu64 " ms\n",
           totals.orders, took_s, play->settings.speed, play->settings.limit_s, play->delay_ms);
    printf("placed=%zu late_payments=%zu broken=%zu refused=%zu\n", totals.placed, totals.late, totals.broken,
           totals.refused);
    printf("orders=%zu paid=%zu closed=%zu early=%zu lost=%zu duplicates=%zu lateness_p50_ms=%.0f "
           "lateness_p99_ms=%.0f lateness_max_ms=%.0f\n",
           totals.orders, totals.paid, totals.closed, totals.early, totals.lost, totals.duplicates,
           totals.lateness_p50_ms, totals.lateness_p99_ms, totals.lateness_max_ms);
    fflush(stdout);
    bool good = totals.early == 0 && totals.broken == 0 && totals.lost == 0 && totals.refused == 0;
    if (interrupted) fprintf(stderr, "order_timeout: interrupted\n");
    return good && !interrupted ? 0 : 1;
}

static int run(struct play *play) {
    struct settings *settings = &play->settings;
    int rv = settings->orders != NULL ? orders_read(&play->orders, settings->orders)
                                      : orders_make_up(&play->orders, settings->seed, settings->count);
    if (rv != 0) return 1;
    play->delay_ms = (uint64_t)ceil((double)settings->limit_s * 1000 / settings->speed);
    if (play->delay_ms == 0) play->delay_ms = 1;
    play->ledger = ledger_new(&play->orders, play->delay_ms * 1000);
    if (play->ledger == NULL || make_events(play) != 0) return 1;
    /* Forks before the library starts its threads. */
    if (closers_start(&play->closers, settings->consumers, settings->broker, settings->queue) != 0) return 1;
    struct tarry_options options = {.urls = settings->broker,
                                    .name = "order_timeout",
                                    .timeout_ms = settings->timeout_ms};
    rv = tarry_open(&options, &play->client);
    if (rv == TARRY_OK) rv = tarry_ping(play->client, NULL);
    if (rv != TARRY_OK) {
        fprintf(stderr, "order_timeout: %s: %s\n", settings->broker, tarry_code_sentence(rv));
        closers_stop(&play->closers, play->ledger);
        return rv == TARRY_E_NO_BROKER || rv == TARRY_E_TIMEOUT ? 3 : 1;
    }
    fprintf(stderr, "event=playing orders=%zu speed=%.0f delay_ms=%" PRIu64 "\n", play->orders.count, settings->speed,
            play->delay_ms);
    uint64_t begin = now_us();
    picture_begin(&play->picture);
    if (play_day(play) != 0) interrupted = 1;
    settle(play);
    closers_stop(&play->closers, play->ledger);
    return judge(play, (double)(now_us() - begin) / 1e6);
}

/* ---- the command line */

static const char help[] =
    "usage: order_timeout [OPTION]…\n"
    "\n"
    "Plays a day of orders faster than life: each order schedules its closing, each payment cancels it, consumers\n"
    "close what falls due. Ends with a summary checked against the orders; exit status 0 if every order was paid or\n"
    "closed in time, 1 if any was closed early, closed although its payment was accepted, or never settled,\n"
    "2 for wrong usage, 3 if no broker answers.\n"
    "\n"
    "  --broker URL[,URL]  default $TARRY_BROKER, else ws://127.0.0.1:7272\n"
    "  --orders FILE.csv   columns order_id,placed_at,paid_at,status; Unix seconds, paid_at may be empty\n"
    "  --seed N, --count N without a file: make orders up (default seed 1, 4000 orders)\n"
    "  --speed N           times faster than life (default 3600: a day in 24 seconds)\n"
    "  --limit DURATION    an order not paid within it is closed (30s, 30m, 2h; default 30m)\n"
    "  --consumers N       processes that close orders (default 2); their pids are said on standard error\n"
    "  --queue NAME        default close-order\n"
    "  --timeout DURATION  give up after this time without a broker's answer (default 60s)\n"
    "  --help\n"
    "\n"
    "example: order_timeout --orders orders.csv --speed 3600 --limit 30m\n";

/* Parses "30s", "30m", "2h" or "1d" to seconds. */
static bool parse_duration_s(const char *text, uint64_t *out_s) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    uint64_t unit = strcmp(end, "s") == 0   ? 1
                    : strcmp(end, "m") == 0 ? 60
                    : strcmp(end, "h") == 0 ? 3600
                    : strcmp(end, "d") == 0 ? 86400
                                            : 0;
    if (end == text || text[0] == '-' || unit == 0 || value == 0 || value > 365ull * 86400 / unit) return false;
    *out_s = value * unit;
    return true;
}

static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out_value) {
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != 0 || text[0] == '-' || value < min || value > max) return false;
    *out_value = value;
    return true;
}

static bool parse_option(struct settings *settings, int option, const char *value) {
    uint64_t number = 0;
    bool good = true;
    switch (option) {
    case 'b':
        settings->broker = value;
        break;
    case 'o':
        settings->orders = value;
        break;
    case 'q':
        settings->queue = value;
        break;
    case 'r':
        settings->role = value;
        break;
    case 's':
        good = parse_number(value, 1, 1000000, &number), settings->speed = (double)number;
        break;
    case 'l':
        good = parse_duration_s(value, &settings->limit_s);
        break;
    case 'e':
        good = parse_number(value, 0, UINT64_MAX, &settings->seed);
        break;
    case 'n':
        good = parse_number(value, 1, 10000000, &number), settings->count = number;
        break;
    case 'c':
        good = parse_number(value, 1, CLOSERS_MAX, &number), settings->consumers = number;
        break;
    case 't':
        good = parse_duration_s(value, &number), settings->timeout_ms = number * 1000;
        break;
    default:
        return false;
    }
    if (!good) fprintf(stderr, "order_timeout: '%s' is out of range or no such value\n", value);
    return good;
}

int main(int argc, char **argv) {
    static const struct option options[] = {{"broker", required_argument, NULL, 'b'},
                                            {"orders", required_argument, NULL, 'o'},
                                            {"queue", required_argument, NULL, 'q'},
                                            {"role", required_argument, NULL, 'r'},
                                            {"speed", required_argument, NULL, 's'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"seed", required_argument, NULL, 'e'},
                                            {"count", required_argument, NULL, 'n'},
                                            {"consumers", required_argument, NULL, 'c'},
                                            {"timeout", required_argument, NULL, 't'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *broker = getenv("TARRY_BROKER");
    struct play play = {.settings = {.broker = broker != NULL ? broker : TARRY_DEFAULT_URL,
                                     .queue = "close-order",
                                     .role = "all",
                                     .limit_s = 1800,
                                     .speed = 3600,
                                     .seed = 1,
                                     .count = 4000,
                                     .consumers = 2,
                                     .timeout_ms = 60000}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (!parse_option(&play.settings, option, optarg)) return 2;
    }
    if (optind != argc) {
        fprintf(stderr, "order_timeout: unexpected argument '%s'\n", argv[optind]);
        return 2;
    }
    if (strcmp(play.settings.role, "consumer") == 0) return closer_main(play.settings.broker, play.settings.queue);
    if (strcmp(play.settings.role, "all") != 0) {
        fprintf(stderr, "order_timeout: --role is all or consumer\n");
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    int rv = run(&play);
    tarry_close(play.client);
    ledger_free(play.ledger);
    free(play.events);
    orders_free(&play.orders);
    return rv;
}
