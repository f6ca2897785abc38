/* directory.c: see directory.h. */
#include "directory.h"

#include <assert.h>
#include <string.h>

#include "output.h"

static_assert((int)STORE_REFUSED == (int)EXIT_REFUSED, "results of the store are exit statuses");

int store_open(struct store *store, const struct args *args) {
    const char *directory = args_get(args, "data");
    if (directory == NULL) return tool_usage(args, "missing directory: give --data DIR");
    if (strlen(directory) + 16 > STORE_PATH_SIZE) return tool_usage(args, "--data: the directory name is too long");
    store_init(store, directory);
    int status = store_open_all(store, args_get(args, "archive"));
    if (status == 0) return 0;
    tool_say("%s", store->message);
    store_close(store);
    return status;
}

int store_finish(struct store *store, struct text *out, int status) {
    status = output_flush(out, status);
    if (store->message[0] != 0) tool_say("%s", store->message);
    text_deinit(out);
    store_close(store);
    return status;
}
