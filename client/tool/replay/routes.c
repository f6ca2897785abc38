/* routes.c: see routes.h. */
#include "routes.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "tool.h"

/* Returns the name after '=' of the option --map recorded=NAME; NULL: there is no such option. */
static const char *mapped(const struct args *args, const char *recorded) {
    size_t size = strlen(recorded);
    for (size_t i = 0; i < args->many_count; i++) {
        const char *value = args->many[i].value;
        if (strcmp(args->many[i].option, "map") != 0) continue;
        if (strncmp(value, recorded, size) == 0 && value[size] == '=') return value + size + 1;
    }
    return NULL;
}

static bool is_taken(const struct args *args, const char *recorded) {
    bool any = false;
    for (size_t i = 0; i < args->many_count; i++) {
        if (strcmp(args->many[i].option, "queue") != 0) continue;
        if (strcmp(args->many[i].value, recorded) == 0) return true;
        any = true;
    }
    return !any;
}

static int check_map(const struct args *args, size_t at) {
    const char *value = args->many[at].value, *equals = strchr(value, '=');
    if (equals == NULL || equals == value || equals[1] == 0)
        return tool_usage(args, "--map: '%s' is not OLD=NEW, two queue names", value);
    size_t size = (size_t)(equals - value) + 1;
    for (size_t i = 0; i < at; i++)
        if (strcmp(args->many[i].option, "map") == 0 && strncmp(args->many[i].value, value, size) == 0)
            return tool_usage(args, "--map: '%.*s' is mapped twice", (int)size - 1, value);
    return 0;
}

int routes_init(struct routes *routes, const struct args *args) {
    *routes = (struct routes){.args = args};
    int status = 0;
    for (size_t i = 0; i < args->many_count && status == 0; i++) {
        if (strcmp(args->many[i].option, "map") == 0) status = check_map(args, i);
        if (strcmp(args->many[i].option, "queue") == 0 && args->many[i].value[0] == 0)
            status = tool_usage(args, "--queue: the name is empty");
    }
    return status;
}

static struct route *add(struct routes *routes, const char *recorded) {
    if (routes->count % 64 == 0) {
        struct route **grown = tool_alloc((routes->count + 64) * sizeof *grown);
        if (routes->count > 0) memcpy(grown, routes->items, routes->count * sizeof *grown);
        free(routes->items);
        routes->items = grown;
    }
    const char *name = mapped(routes->args, recorded);
    struct route *route = tool_alloc(sizeof *route);
    *route = (struct route){.recorded = tool_strdup(recorded),
                            .name = tool_strdup(name != NULL ? name : recorded),
                            .taken = is_taken(routes->args, recorded)};
    routes->items[routes->count++] = route;
    return route;
}

struct route *routes_find(struct routes *routes, const char *recorded) {
    if (routes->last != NULL && strcmp(routes->last->recorded, recorded) == 0) return routes->last;
    struct route *found = NULL;
    for (size_t i = 0; i < routes->count && found == NULL; i++)
        if (strcmp(routes->items[i]->recorded, recorded) == 0) found = routes->items[i];
    routes->last = found != NULL ? found : add(routes, recorded);
    return routes->last;
}

void routes_deinit(struct routes *routes) {
    for (size_t i = 0; i < routes->count; i++) {
        free((char *)routes->items[i]->recorded);
        free((char *)routes->items[i]->name);
        free(routes->items[i]);
    }
    free(routes->items);
    *routes = (struct routes){0};
}
