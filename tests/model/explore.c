/* explore.c: visits every reachable state of two nodes, their logs, a coordinator and the network, within limits on
 * epochs and frames. The search is breadth first, so that it prints the shortest trace to a violated invariant.
 *
 * Usage: explore with any of these options:
 *   --epochs N, --frames N, --states MAX, --weak NAME,
 *   --strict, --async, --operator, --hand, --force, --lag, --silent-clients, --exchange, --wrong, --lose, --roll,
 *   --presence, --safety, --tap
 *
 * A 64-bit hash of the canonical form identifies a state (hash compaction: Wolper, Leroy 1993; with 100 million
 * states the probability that two share a hash is below 1 in 1,000). From every 64th state, the program also checks
 * this: if there are no more faults, the pair reaches one leader, the other node in sync, and equal logs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "must.h"
#include "pair_world.h"
#ifdef TARRY_SEEDED_BUGS
#include <seeded_bug.h> /* made by tests/sim/bugs/seeding.py */
#endif

#define SETTLE_EVERY 64
#define SETTLE_STEPS_MAX 400
#define TABLE_FIRST (1u << 16) /* number of entries; a power of two, like the next constant */
#define FRONTIER_FIRST (1u << 10)

struct step {
    uint32_t parent;
    uint8_t move; /* action × NODES + node, as one number */
};

struct explorer {
    struct pair_limits limits;
    uint64_t states_max;
    bool is_tap;
    bool is_safety; /* true: safety is checked, but not whether states settle */
    /* Hashes of the visited states; 0: free entry. Table and ring grow only as needed, because each touched page costs
     * time. */
    uint64_t *table;
    uint64_t table_mask;
    struct step *steps;          /* the step that led to each state, by the state's number */
    struct pair_world *frontier; /* ring buffer of states that are not yet expanded */
    uint64_t frontier_mask, first, last;
    uint64_t transitions, settled, frontier_peak;
};

static void *reserve(size_t size) {
    // cppcheck-suppress invalidFunctionArg ; -1 is right with MAP_ANONYMOUS
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(memory != MAP_FAILED);
    return memory;
}

static uint64_t *place_of(uint64_t *table, uint64_t mask, uint64_t hash) {
    uint64_t i = hash & mask;
    while (table[i] != 0 && table[i] != hash) i = (i + 1) & mask;
    return &table[i];
}

static void grow_table(struct explorer *explorer) {
    uint64_t size = (explorer->table_mask + 1) * sizeof *explorer->table, mask = explorer->table_mask * 2 + 1;
    uint64_t *grown = reserve(size * 2);
    for (uint64_t i = 0; i <= explorer->table_mask; i++)
        if (explorer->table[i] != 0) *place_of(grown, mask, explorer->table[i]) = explorer->table[i];
    MUST(munmap(explorer->table, size) == 0);
    explorer->table = grown;
    explorer->table_mask = mask;
}

/* Returns true if the state is new. */
static bool add(struct explorer *explorer, uint64_t hash) {
    if (hash == 0) hash = 1;
    uint64_t *place = place_of(explorer->table, explorer->table_mask, hash);
    if (*place == hash) return false;
    *place = hash;
    if (explorer->last > explorer->table_mask / 2) grow_table(explorer); /* includes `last` */
    return true;
}

static void grow_frontier(struct explorer *explorer) {
    uint64_t size = (explorer->frontier_mask + 1) * sizeof *explorer->frontier, mask = explorer->frontier_mask * 2 + 1;
    struct pair_world *grown = reserve(size * 2);
    for (uint64_t number = explorer->first; number < explorer->last; number++)
        memcpy(&grown[number & mask], &explorer->frontier[number & explorer->frontier_mask], sizeof *grown);
    MUST(munmap(explorer->frontier, size) == 0);
    explorer->frontier = grown;
    explorer->frontier_mask = mask;
}

static void tell(const struct pair_world *world, int node, enum action action) {
    static const char *const roles[] = {"down", "looking", "following", "fencing", "claiming", "leading", "ended"};
    printf("#   node %d %-45s", node, action_names[action]);
    for (int i = 0; i < NODES; i++) {
        const struct model_node *one = &world->nodes[i];
        printf(" | %d %s e%u floor %u log ", i, roles[one->up ? one->pair.role : 0], one->pair.epoch,
               one->hard_state.floor);
        for (int k = 0; k < one->log.end; k++) printf("%s%u", k == one->log.durable ? "/" : "", one->log.epochs[k]);
        if (one->pair.role == PAIR_LEADING) printf(" %s", one->pair.counted ? "counts" : "alone");
    }
    printf(" | record v%" PRIu64 " e%u leader %u in sync %u", world->version, world->record.epoch, world->record.leader,
           world->record.in_sync);
    printf(" | acked %u\n", world->acked.end);
}

/* Prints the steps from the first state to the state with that number, and one more step. */
static void story(const struct explorer *explorer, uint32_t number, int move) {
    static uint8_t moves[1 << 16];
    size_t count = 0;
    if (move >= 0) moves[count++] = (uint8_t)move;
    for (; number != 0; number = explorer->steps[number].parent) moves[count++] = explorer->steps[number].move;
    struct pair_world world;
    pair_world_begin(&world, &explorer->limits);
    while (count > 0) {
        int next = moves[--count];
        pair_world_act(&world, next % NODES, (enum action)(next / NODES));
        tell(&world, next % NODES, (enum action)(next / NODES));
    }
}

/* Returns whether the state settles if there is no crash and no loss. If no other action is possible, the nodes notice
 * that no message arrives (ACT_SILENT). `is_lost`: first, all messages in flight between the nodes are lost, so that no
 * node learns about the other from an old message. `told`: prints the actions. */
static bool settles_from(const struct pair_world *from, bool is_lost, bool told) {
    static const enum action fine[] = {ACT_START, ACT_GHOST, ACT_WRITE_STATE, ACT_COORDINATOR,
                                       ACT_HEAR,  ACT_SYNC,  ACT_TAKE,        ACT_TAKE_ANSWER,
                                       ACT_WATCH, ACT_YIELD, ACT_UNANSWERED};
    struct pair_world world;
    memcpy(&world, from, sizeof world);
    if (is_lost) {
        memset(world.questions, 0, sizeof world.questions);
        memset(world.answers, 0, sizeof world.answers);
    }
    for (int node = 0; node < NODES; node++) /* a node that refuses the older coordinator is started again */
        if (world.nodes[node].remembers) pair_world_act(&world, node, ACT_CRASH_KEPT);
    for (int i = 0; i < SETTLE_STEPS_MAX; i++) {
        if (pair_world_is_settled(&world)) return true;
        bool moved = false;
        for (size_t k = 0; k < sizeof fine / sizeof *fine && !moved; k++)
            for (int node = 0; node < NODES && !moved; node++)
                if ((moved = pair_world_act(&world, (i + node) % NODES, fine[k])) && told)
                    tell(&world, (i + node) % NODES, fine[k]);
        bool is_bare = i % 40 == 39; /* without this limit, repeated questions could go on for ever */
        for (int node = 0; node < NODES && (!moved || is_bare); node++)
            if (world.nodes[node].up && (!moved || world.nodes[node].pair.role != PAIR_LEADING))
                pair_world_act(&world, node, ACT_SILENT);
        if (pair_world_broken) return false;
    }
    return false;
}

static bool settles(const struct pair_world *from, bool told) {
    return settles_from(from, false, told) && settles_from(from, true, told);
}

static bool fail(const struct explorer *explorer, uint32_t number, int move, const char *what) {
    printf("# broken: %s\n", what);
    story(explorer, number, move);
    return false;
}

/* Visits all next states. Returns false if a promise was broken. */
static bool expand(struct explorer *explorer, uint32_t number) {
    struct pair_world from;
    memcpy(&from, &explorer->frontier[number & explorer->frontier_mask], sizeof from);
    for (int move = 0; move < ACTIONS * NODES; move++) {
        /* A lost message leads to the same states as a message that stays and is never read. */
        if (move / NODES == ACT_TAKE || move / NODES == ACT_TAKE_ANSWER) continue;
        if (explorer->last - explorer->first >= explorer->frontier_mask) grow_frontier(explorer);
        struct pair_world *next = &explorer->frontier[explorer->last & explorer->frontier_mask];
        memcpy(next, &from, sizeof from);
        if (!pair_world_act(next, move % NODES, (enum action)(move / NODES))) continue;
        explorer->transitions++;
        if (pair_world_broken) return fail(explorer, number, move, pair_world_broken);
        if (!pair_world_is_inside(next) || !add(explorer, pair_world_hash(next))) continue;
        explorer->steps[explorer->last] = (struct step){.parent = number, .move = (uint8_t)move};
        explorer->last++;
        if (explorer->last % SETTLE_EVERY == 0 && !explorer->is_safety) {
            explorer->settled++;
            if (!settles(next, false)) {
                fail(explorer, number, move,
                     pair_world_broken ? pair_world_broken : "it does not settle; it goes on so:");
                return settles(next, true);
            }
        }
    }
    return true;
}

static bool explore(struct explorer *explorer) {
    pair_world_begin(&explorer->frontier[0], &explorer->limits);
    add(explorer, pair_world_hash(&explorer->frontier[0]));
    explorer->last = 1;
    for (; explorer->first < explorer->last; explorer->first++) {
        if (!expand(explorer, (uint32_t)explorer->first)) return false;
        if (explorer->last >= explorer->states_max) {
            printf("# more than %" PRIu64 " states: not explored to the end\n", explorer->states_max);
            return false;
        }
        uint64_t width = explorer->last - explorer->first;
        if (width > explorer->frontier_peak) explorer->frontier_peak = width;
        if (explorer->first % 5000000 == 0 && explorer->first > 0)
            fprintf(stderr, "%" PRIu64 " of %" PRIu64 " so far\n", explorer->first, explorer->last);
    }
    return true;
}

static bool choose_weakness(const char *name) {
#ifdef TARRY_SEEDED_BUGS
    return seeded_bug_choose(name);
#else
    (void)name;
    return false;
#endif
}

static bool take_option(struct explorer *explorer, const char *name, const char *value) {
    if (strcmp(name, "--weak") == 0) return choose_weakness(value);
    uint64_t number = strtoull(value, NULL, 10);
    if (number == 0 || number >= UINT32_MAX) return false;
    if (strcmp(name, "--epochs") == 0)
        explorer->limits.epochs = (uint32_t)number;
    else if (strcmp(name, "--frames") == 0 && number <= LOG_MAX)
        explorer->limits.frames = (uint8_t)number;
    else if (strcmp(name, "--states") == 0)
        explorer->states_max = number;
    else
        return false;
    return true;
}

static bool take_flag(struct explorer *explorer, const char *name) {
    struct pair_limits *limits = &explorer->limits;
    const struct {
        const char *name;
        bool *flag;
    } flags[] = {
        {"--strict", &limits->strict},
        {"--async", &limits->async},
        {"--operator", &limits->by_operator},
        {"--hand", &limits->hand},
        {"--force", &limits->force},
        {"--lag", &limits->lag},
        {"--safety", &explorer->is_safety},
        {"--silent-clients", &limits->silent_clients},
        {"--tap", &explorer->is_tap},
        {"--exchange", &limits->exchange},
        {"--wrong", &limits->wrong},
        {"--lose", &limits->lose},
        {"--roll", &limits->roll},
        {"--presence", &limits->presence},
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        if (strcmp(flags[i].name, name) != 0) continue;
        *flags[i].flag = true;
        return true;
    }
    return false;
}

static bool options(struct explorer *explorer, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (take_flag(explorer, argv[i])) continue;
        if (i + 1 == argc || !take_option(explorer, argv[i], argv[i + 1])) return false;
        i++;
    }
    return true;
}

static void take_memory(struct explorer *explorer) {
    explorer->table = reserve(TABLE_FIRST * sizeof *explorer->table);
    explorer->table_mask = TABLE_FIRST - 1;
    explorer->steps = reserve(explorer->states_max * 2 * sizeof *explorer->steps);
    explorer->frontier = reserve(FRONTIER_FIRST * sizeof *explorer->frontier);
    explorer->frontier_mask = FRONTIER_FIRST - 1;
}

int main(int argc, char **argv) {
    struct explorer explorer = {.limits = {.epochs = 2, .frames = 1}, .states_max = 200000000};
    if (!options(&explorer, argc, argv)) {
        fprintf(
            stderr,
            "usage: explore [--epochs N] [--frames 1-%d] [--strict] [--async] [--operator] [--hand] [--force] [--lag]\n"
            "               [--exchange] [--lose] [--roll] [--presence] [--silent-clients] [--safety] [--states MAX] "
            "[--weak "
            "NAME] [--tap]\n",
            LOG_MAX);
        return 2;
    }
    take_memory(&explorer);
    if (explorer.is_tap) printf("1..1\n");
    bool ok = explore(&explorer);
    printf("# epochs=%u frames=%u strict=%d states=%" PRIu64 " transitions=%" PRIu64 " settled=%" PRIu64
           " widest=%" PRIu64 "\n",
           explorer.limits.epochs, explorer.limits.frames, explorer.limits.strict, explorer.last, explorer.transitions,
           explorer.settled, explorer.frontier_peak);
    if (explorer.is_tap)
        printf("%s 1 - two nodes, %u epochs, %u frames\n", ok ? "ok" : "not ok", explorer.limits.epochs,
               explorer.limits.frames);
    return ok ? 0 : 1;
}
