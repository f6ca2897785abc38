/* backup.c: tarry backup and tarry restore. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"
#include "directory.h"
#include "disk.h"
#include "identity.h"
#include "json_out.h"
#include "nodes.h"
#include "output.h"
#include "progress.h"
#include "signals.h"
#include "tarry_limits.h"
#include "units.h"
#include "verify.h"

/* ---- tarry backup DIR: libtarry copies the directory; then the copy is checked as by tarry verify */

/* Timeout of the status requests that find the follower. */
#define ASK_MS 3000u

static int run_backup(struct tool *tool, const struct args *args);

static const struct arg_spec backup_options[] = {
    {"with-archive", ARG_FLAG, NULL, "also copy archived segments"},
    {"deadline", ARG_VALUE, "DUR", "time after which an unfinished backup fails [no limit]"},
    {"no-verify", ARG_FLAG, NULL, "do not read the copy again to check it"},
    {0},
};

const struct command command_backup = {
    .name = "backup",
    .usage = "DIR [--with-archive] [--deadline DUR] [--no-verify]",
    .summary = "copy a running broker's data directory",
    .text = "Copies the data directory of the running broker to DIR on this machine, as of one position of its\n"
            "log, and checks the copy. The broker keeps running. The copy includes everything that was\n"
            "acknowledged before. DIR is new, empty, or left by an unfinished backup, which is deleted first.\n"
            "The copy is complete: 'tarry verify', 'tarry history --data' and 'tarry restore' accept it. It has\n"
            "its own id and starts in another epoch, so it can run beside the original.\n\n"
            "For a pair, name both nodes. If the follower is in sync, the copy is made from it, so that the\n"
            "disk of the primary is free for clients; otherwise the copy is made from the primary. The follower\n"
            "lags by some milliseconds: the printed position says how far the copy reaches.\n\n"
            "The exit status is also 1 if another backup is running, or if the broker's disk has no room for a\n"
            "copy of its index, which the broker keeps during the backup.",
    .options = backup_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "DIR",
    .examples = "tarry backup /mnt/backup/tarry-2026-11-21\n"
                "tarry backup /mnt/backup/today --broker wss://10.0.0.1:7272,wss://10.0.0.2:7272\n"
                "tarry backup /mnt/backup/today --broker wss://10.0.0.7:7272 --deadline 1h --json\n"
                "tarry restore /mnt/backup/today --data /var/lib/tarry/main",
    .run = run_backup,
};

static bool show(void *argument, uint64_t done, uint64_t total) {
    progress_show(argument, done, total, done >> 20);
    return !signals_ended();
}

static bool is_good_follower(const struct tarry_pair_view *view) {
    bool waits = view->replication == TARRY_REPLICATION_SYNC;
    return view->role == TARRY_FOLLOWER && (view->in_sync || !waits);
}

/* Returns the URL of the follower among several brokers, or else that of the leader. NULL: neither has answered. The
 * caller frees it. */
static char *choose(const struct tool *tool) {
    struct nodes nodes;
    char *follower = NULL, *primary = NULL;
    if (nodes_open(&nodes, tool, tool->timeout_ms < ASK_MS ? tool->timeout_ms : ASK_MS) == EXIT_FINE) {
        nodes_ask(&nodes);
        for (size_t i = 0; i < nodes.count; i++) {
            const struct node *node = &nodes.items[i];
            if (follower == NULL && node->view != NULL && is_good_follower(node->view))
                follower = tool_strdup(node->url);
            if (primary == NULL && node_is_primary(node)) primary = tool_strdup(node->url);
        }
    }
    nodes_close(&nodes);
    if (follower == NULL) return primary;
    free(primary);
    return follower;
}

static void print_backup(const struct tool *tool, const char *directory, const struct tarry_backup_view *view,
                         const struct verified *verified, const char *from, struct text *out) {
    char took[UNITS_TEXT_SIZE], size[UNITS_TEXT_SIZE], digest[24];
    snprintf(digest, sizeof digest, "%016" PRIx64, verified != NULL ? verified->digest : 0);
    if (!tool->json) {
        text_printf(out, "%s: position %" PRIu64 ", %" PRIu64 " files, %s, in %s%s%s\n", directory, view->position,
                    view->file_count, size_format(view->total_size, size), duration_format(view->took_ms, took),
                    from != NULL ? ", from " : "", from != NULL ? from : "");
        if (verified != NULL) text_printf(out, "checked: digest %s, %" PRIu64 " live tasks\n", digest, verified->live);
        return;
    }
    out_begin(out, '{');
    out_text(out, "directory", directory);
    out_text(out, "result", "fine");
    if (from != NULL) out_text(out, "broker", from);
    out_number(out, "position", view->position);
    out_number(out, "index_position", view->index_position);
    out_number(out, "log_start", view->log_start);
    out_number(out, "files", view->file_count);
    out_number(out, "bytes", view->total_size);
    out_bool(out, "verified", verified != NULL);
    if (verified != NULL) {
        out_text(out, "digest", digest);
        out_number(out, "live", verified->live);
    }
    out_number(out, "took_ms", view->took_ms);
    out_line_end(out);
}

static int copy(struct tool *tool, const struct args *args, struct tarry_backup_view *out) {
    struct progress progress;
    char message[TARRY_MESSAGE_SIZE] = "";
    struct tarry_backup_options backup = {.directory = args->positional[0],
                                          .with_archive = args_has(args, "with-archive"),
                                          .progress = show,
                                          .arg = &progress};
    int status = option_duration_positive(args, "deadline", &backup.deadline_ms);
    if (status == 0) status = tool_connect(tool);
    if (status != 0) return status;
    signals_graceful();
    progress_start(&progress, "MiB");
    int code = tarry_backup(tool->client, &backup, out, message);
    progress_end(&progress);
    return code == TARRY_OK ? EXIT_FINE : tool_failed(tool, code, message);
}

static int run_backup(struct tool *tool, const struct args *args) {
    struct tarry_backup_view view;
    struct verified verified;
    struct store store;
    struct text out = {0};
    bool verify = !args_has(args, "no-verify");
    store_init(&store, args->positional[0]);
    if (strlen(store.directory) + 16 > STORE_PATH_SIZE) return tool_usage(args, "the directory name is too long");
    char *from = tool->broker != NULL && strchr(tool->broker, ',') != NULL ? choose(tool) : NULL;
    if (from != NULL) tool->broker = from;
    int status = copy(tool, args, &view);
    if (status != EXIT_FINE) {
        free(from);
        return status;
    }
    tool_disconnect(tool); /* disconnect before verifying the backup, which may take minutes */
    if (verify) status = verify_store(&store, &verified);
    if (status == EXIT_FINE) print_backup(tool, store.directory, &view, verify ? &verified : NULL, from, &out);
    free(from);
    return store_finish(&store, &out, status);
}

/* ---- tarry restore BACKUP --data DIR
 *
 * First, all of BACKUP is checked. Then it is copied to DIR.restoring, which is marked as unfinished. The copy gets the
 * identity of a new member, is synced, and is renamed to DIR. Last, the mark is removed. A crash at any moment leaves
 * DIR unchanged or marked, and DIR.restoring marked. No program opens a marked directory, and the next `tarry restore`
 * deletes it. BACKUP is not changed; it may be any data directory that no broker uses.
 *
 * If root restores, the files get the owner of DIR's parent directory (store.h). With the systemd units that is the
 * broker's user, whose number root cannot know. */

#define BLOCK_SIZE ((size_t)4 << 20)
#define SUFFIX ".restoring"
#define SUFFIX_ROOM 64 /* bytes reserved for the suffix and for the longest file name in a data directory */

static int run_restore(struct tool *tool, const struct args *args);

static const struct arg_spec restore_options[] = {
    {"data", ARG_VALUE, "DIR", "data directory to make; it does not exist yet, or is empty"},
    {0},
};

const struct command command_restore = {
    .name = "restore",
    .usage = "BACKUP --data DIR",
    .summary = "make a data directory from a backup",
    .text = "Checks everything in BACKUP as 'tarry verify' does, copies it, and puts the copy in place as DIR\n"
            "in one step. If anything is wrong, DIR stays as it was. The restored directory is a new member of\n"
            "its cluster, with its own id, secret and epochs. So no lease token is ever given out twice, and it\n"
            "can run beside the original. Consumers subscribe again, and tasks that were in flight are\n"
            "delivered again.\n\n"
            "DIR is the data directory of the broker (/var/lib/tarry/main under the systemd units). Missing\n"
            "parent directories are created. If root restores, DIR gets the owner of its parent directory.\n\n"
            "BACKUP may be any data directory without a running broker, so this command can clone one. (A copy\n"
            "by 'cp -a' has the id and the epochs of its original.) If BACKUP is damaged, the exit status is 1,\n"
            "and the place of the damage is printed. A torn tail, which a crash leaves, is no damage, but is\n"
            "reported: a backup has none when it is made.",
    .options = restore_options,
    .positional_min = 1,
    .positional_max = 1,
    .positional_names = "BACKUP",
    .examples = "tarry restore /mnt/backup/today --data /var/lib/tarry/main && systemctl start tarry\n"
                "tarry restore /mnt/backup/today --data /tmp/look --json && tarryd --data /tmp/look",
    .run = run_restore,
};

struct restore {
    struct store store; /* BACKUP */
    const char *target;
    char staging[STORE_PATH_SIZE];
    uint8_t *block;
    struct owner owner; /* owner of the restored files */
    uint64_t total;     /* bytes */
    uint64_t copied;
    uint64_t files;
    struct progress progress;
};

static int failed(struct restore *r, const char *what, const char *path, int error) {
    return store_damaged(&r->store, "cannot %s %s: %s", what, path, strerror(error < 0 ? -error : error));
}

/* Returns whether a restore omits the file, because the file belongs to one directory (identity, locks, temporary
 * files) and not to its data. */
static bool stays_behind(const char *name) {
    static const char *const names[] = {
        ".",        "..",      "lock",       "boot",     "boot.new",         "identity",   "identity.new",
        "member",   "pair",    "member.new", "pair.new", "lock.mdb",         "backup.tmp", "lost+found",
        "next.tmp", "cut.tmp", "large.tmp",  "archived", BACKUP_PARTIAL_NAME};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Calls `each` with the relative name of every file in `path` and its direct subfolders. Also calls it for every
 * folder, before its files, or after them if `folders_last`. */
static int walk(struct restore *r, const char *path, const char *folder, bool folders_last,
                int (*each)(struct restore *r, const char *path, const char *name, const struct stat *status)) {
    DIR *stream = opendir(path);
    if (stream == NULL) return failed(r, "list", path, errno);
    int result = 0;
    /* The stream is not shared; readdir_r is deprecated in glibc. */
    // cppcheck-suppress readdirCalled
    for (struct dirent *entry; result == 0 && (entry = readdir(stream)) != NULL;) {
        char full[STORE_PATH_SIZE + 300], name[600];
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(full, sizeof full, "%s/%s", path, entry->d_name);
        snprintf(name, sizeof name, "%s%s%s", folder, folder[0] != 0 ? "/" : "", entry->d_name);
        if (lstat(full, &status) != 0)
            result = failed(r, "look at", full, errno);
        else if (S_ISDIR(status.st_mode) && folder[0] == 0 && folders_last)
            result = walk(r, full, name, folders_last, each);
        if (result == 0) result = each(r, full, name, &status);
        if (result == 0 && S_ISDIR(status.st_mode) && folder[0] == 0 && !folders_last && !stays_behind(entry->d_name))
            result = walk(r, full, name, folders_last, each);
    }
    closedir(stream);
    return result;
}

static const char *base_name(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

static int count_file(struct restore *r, const char *path, const char *name, const struct stat *status) {
    (void)path;
    if (!stays_behind(base_name(name)) && S_ISREG(status->st_mode)) r->total += (uint64_t)status->st_size;
    return 0;
}

static int copy_bytes(struct restore *r, const char *from, const char *to, int in, int out, uint64_t size) {
    for (uint64_t offset = 0; offset < size;) {
        size_t wanted = size - offset < BLOCK_SIZE ? (size_t)(size - offset) : BLOCK_SIZE;
        int64_t count = disk_read_all(&disk_posix, in, r->block, wanted, offset);
        if (count <= 0) return failed(r, "read", from, count < 0 ? (int)count : ENODATA);
        int error = disk_write_all(&disk_posix, out, r->block, (size_t)count, offset);
        if (error != 0) return failed(r, "write", to, error);
        offset += (uint64_t)count;
        r->copied += (uint64_t)count;
        progress_show(&r->progress, r->copied, r->total, r->copied >> 20);
    }
    int error = disk_posix.sync(NULL, out);
    return error != 0 ? failed(r, "sync", to, error) : 0;
}

static int copy_file(struct restore *r, const char *path, const char *name, const struct stat *status) {
    char to[STORE_PATH_SIZE + 600];
    snprintf(to, sizeof to, "%s/%s", r->staging, name);
    if (stays_behind(base_name(name))) return 0;
    if (S_ISDIR(status->st_mode) && strchr(name, '/') != NULL)
        return store_damaged(&r->store, "%s is a directory that does not belong in a data directory; move it away",
                             path);
    if (S_ISDIR(status->st_mode)) return mkdir(to, 0700) == 0 ? 0 : failed(r, "make", to, errno);
    if (!S_ISREG(status->st_mode)) return store_damaged(&r->store, "%s is neither a file nor a directory", path);
    int in = disk_posix.open(NULL, path, O_RDONLY, 0);
    if (in < 0) return failed(r, "read", path, in);
    int out = disk_posix.open(NULL, to, O_WRONLY | O_CREAT | O_EXCL, 0600);
    int result = out < 0 ? failed(r, "make", to, out) : copy_bytes(r, path, to, in, out, (uint64_t)status->st_size);
    int closed = out >= 0 ? disk_posix.close(NULL, out) : 0;
    if (result == 0 && closed != 0) result = failed(r, "close", to, closed);
    disk_posix.close(NULL, in);
    r->files++;
    return result;
}

static int give_file(struct restore *r, const char *path, const char *name, const struct stat *status) {
    (void)name;
    (void)status;
    int error = owner_give(r->owner, path);
    return error != 0 ? failed(r, "give to its owner", path, error) : 0;
}

static int sync_folder(struct restore *r, const char *path, const char *name, const struct stat *status) {
    (void)name;
    int error = S_ISDIR(status->st_mode) ? disk_posix.sync_directory(NULL, path) : 0;
    return error != 0 ? failed(r, "sync", path, error) : 0;
}

static int delete_file(struct restore *r, const char *path, const char *name, const struct stat *status) {
    /* The mark of an unfinished directory (mark_path) is deleted last. */
    if (strcmp(name, BACKUP_PARTIAL_NAME) == 0) return 0;
    int result = S_ISDIR(status->st_mode) ? rmdir(path) : unlink(path);
    return result == 0 ? 0 : failed(r, "delete", path, errno);
}

/* Writes the path of the mark of an unfinished directory. This file is made first and deleted last. */
static void mark_path(const char *directory, char out[STORE_PATH_SIZE + SUFFIX_ROOM]) {
    snprintf(out, STORE_PATH_SIZE + SUFFIX_ROOM, "%s/%s", directory, BACKUP_PARTIAL_NAME);
}

/* Creates the missing parent directories of the target, and syncs each of them. */
static int make_parents(struct restore *r) {
    char path[STORE_PATH_SIZE], parent[STORE_PATH_SIZE];
    for (size_t i = 1; r->staging[i] != 0; i++) {
        if (r->staging[i] != '/' || r->staging[i - 1] == '/') continue;
        snprintf(path, sizeof path, "%.*s", (int)i, r->staging);
        if (mkdir(path, 0755) != 0) {
            if (errno == EEXIST || access(path, F_OK) == 0) continue;
            return failed(r, "make", path, errno);
        }
        int error = owner_give(r->owner, path);
        if (error == 0) error = disk_parent(path, parent, sizeof parent);
        if (error == 0) error = disk_posix.sync_directory(NULL, parent);
        if (error != 0) return failed(r, "make", path, error);
    }
    return 0;
}

static int stage_begin(struct restore *r) {
    char mark[STORE_PATH_SIZE + SUFFIX_ROOM];
    int made = make_parents(r);
    if (made != 0) return made;
    mark_path(r->staging, mark);
    (void)rmdir(r->staging); /* an empty directory: an earlier restore was killed before it wrote the mark */
    if (mkdir(r->staging, 0700) != 0) {
        if (errno != EEXIST) return failed(r, "make", r->staging, errno);
        if (!directory_is_partial(r->staging))
            return store_damaged(&r->store, "%s exists, and is not left from an unfinished restore; move it away",
                                 r->staging);
        int result = walk(r, r->staging, "", true, delete_file);
        if (result != 0) return result;
    }
    int handle = disk_posix.open(NULL, mark, O_WRONLY | O_CREAT, 0600);
    if (handle < 0) return failed(r, "make", mark, handle);
    disk_posix.close(NULL, handle);
    int error = disk_posix.sync_directory(NULL, r->staging);
    return error != 0 ? failed(r, "sync", r->staging, error) : 0;
}

static int give_identity(struct restore *r, const struct verified *verified, struct member *out) {
    struct identity own, identity;
    struct member parent = {0};
    char message[IDENTITY_MESSAGE_SIZE];
    int error = identity_read(r->store.directory, &own, message);
    if (error == 0) error = member_read(r->store.directory, &parent, message);
    if (error == -ENOENT) error = 0; /* a data directory of an earlier version has no DIR/member */
    if (error > 0) return store_damaged(&r->store, "%s", message);
    if (error < 0) return failed(r, "read the identity in", r->store.directory, error);
    if (!identity_copy(&own, &parent, verified->epoch, &identity, out))
        return store_damaged(&r->store, "%s has been restored so often that no epoch number is left",
                             r->store.directory);
    error = member_write(r->staging, out);
    if (error == 0) error = identity_write(r->staging, &identity);
    return error != 0 ? failed(r, "write the identity in", r->staging, error) : 0;
}

static int remove_mark(struct restore *r, const char *directory) {
    char mark[STORE_PATH_SIZE + SUFFIX_ROOM];
    mark_path(directory, mark);
    int error = disk_posix.unlink(NULL, mark);
    if (error == 0) error = disk_posix.sync_directory(NULL, directory);
    return error != 0 ? failed(r, "finish", directory, error) : 0;
}

/* Deletes the target of a restore that was killed just before it was finished. */
static int clear_target(struct restore *r) {
    if (!directory_is_partial(r->target)) return 0;
    int result = walk(r, r->target, "", true, delete_file);
    return result == 0 ? remove_mark(r, r->target) : result;
}

/* Renames the complete staged directory to its target, and then deletes its mark. */
static int put_in_place(struct restore *r) {
    char parent[STORE_PATH_SIZE + SUFFIX_ROOM];
    snprintf(parent, sizeof parent, "%s/..", r->target);
    int result = walk(r, r->staging, "", true, sync_folder);
    if (result == 0) result = clear_target(r);
    if (result != 0) return result;
    int error = disk_posix.sync_directory(NULL, r->staging);
    if (error != 0) return failed(r, "sync", r->staging, error);
    /* The rename replaces a missing or empty directory; otherwise it fails. */
    error = disk_posix.rename(NULL, r->staging, r->target);
    if (error != 0) return failed(r, "put the restored directory in place as", r->target, error);
    error = disk_posix.sync_directory(NULL, parent);
    return error != 0 ? failed(r, "sync", parent, error) : remove_mark(r, r->target);
}

static int refuse_any(struct restore *r, const char *path, const char *name, const struct stat *status) {
    (void)path;
    (void)status;
    return store_damaged(&r->store, "%s contains \"%.100s\"; give a new or empty directory with --data", r->target,
                         name);
}

/* Checks the target before the long copy. */
static int check_target(struct restore *r) {
    struct stat status;
    size_t length = strlen(r->target);
    while (length > 1 && r->target[length - 1] == '/') length--;
    snprintf(r->staging, sizeof r->staging, "%.*s%s", (int)length, r->target, SUFFIX);
    if (lstat(r->target, &status) != 0) return errno == ENOENT ? 0 : failed(r, "look at", r->target, errno);
    if (!S_ISDIR(status.st_mode)) return store_damaged(&r->store, "%s is not a directory", r->target);
    if (directory_is_partial(r->target)) return 0; /* clear_target */
    return walk(r, r->target, "", false, refuse_any);
}

static int restore(struct restore *r, struct verified *verified, struct member *member) {
    int status = check_target(r);
    r->owner = owner_of(r->target);
    if (status == 0) status = verify_store(&r->store, verified);
    if (status == 0) status = stage_begin(r);
    if (status != 0) return status;
    r->block = tool_alloc(BLOCK_SIZE);
    status = walk(r, r->store.directory, "", false, count_file);
    progress_start(&r->progress, "MiB");
    if (status == 0) status = walk(r, r->store.directory, "", false, copy_file);
    progress_end(&r->progress);
    if (status == 0) status = give_identity(r, verified, member);
    if (status == 0) status = walk(r, r->staging, "", true, give_file);
    if (status == 0) status = give_file(r, r->staging, "", NULL);
    if (status == 0) status = put_in_place(r);
    free(r->block);
    return status;
}

static void print_restored(const struct tool *tool, const struct restore *r, const struct verified *verified,
                           const struct member *member, uint64_t took_ms, struct text *out) {
    char took[UNITS_TEXT_SIZE], size[UNITS_TEXT_SIZE], digest[24], id[MEMBER_TEXT_SIZE];
    snprintf(digest, sizeof digest, "%016" PRIx64, verified->digest);
    member_format(member->id, id);
    if (!tool->json) {
        text_printf(out, "%s: restored from %s, %s, in %s\n", r->target, r->store.directory,
                    size_format(r->copied, size), duration_format(took_ms, took));
        text_printf(out, "position %" PRIu64 ", digest %s, %" PRIu64 " live tasks; member %s, from epoch %u on\n",
                    verified->log_end, digest, verified->live, id, member->epoch_min);
        if (r->owner.uid != geteuid())
            text_printf(out, "it belongs to uid %u, like its parent directory\n", (unsigned)r->owner.uid);
        if (verified->torn_bytes > 0)
            text_printf(out,
                        "its log ends with a torn tail of %" PRIu64
                        " bytes from a crash; the first start cuts the tail off\n",
                        verified->torn_bytes);
        return;
    }
    out_begin(out, '{');
    out_text(out, "directory", r->target);
    out_text(out, "backup", r->store.directory);
    out_text(out, "result", "fine");
    out_number(out, "position", verified->log_end);
    out_number(out, "torn_tail_bytes", verified->torn_bytes);
    out_text(out, "digest", digest);
    out_number(out, "live", verified->live);
    out_text(out, "member", id);
    out_number(out, "epoch_min", member->epoch_min);
    out_number(out, "owner_uid", r->owner.uid);
    out_number(out, "files", r->files);
    out_number(out, "bytes", r->copied);
    out_number(out, "took_ms", took_ms);
    out_line_end(out);
}

static void print_refusal(const struct tool *tool, const struct restore *r, struct text *out) {
    if (!tool->json) return;
    out_begin(out, '{');
    out_text(out, "directory", r->target);
    out_text(out, "backup", r->store.directory);
    out_text(out, "result", r->store.hindrance != NULL ? r->store.hindrance : "refused");
    out_text(out, "message", r->store.message);
    out_line_end(out);
}

static int run_restore(struct tool *tool, const struct args *args) {
    struct restore r = {.target = args_get(args, "data")};
    struct verified verified = {0};
    struct member member = {0};
    struct text out = {0};
    uint64_t from_ms = steady_ms();
    store_init(&r.store, args->positional[0]);
    if (r.target == NULL || r.target[0] == 0) return tool_usage(args, "missing target: give --data DIR");
    if (strlen(r.store.directory) + SUFFIX_ROOM > STORE_PATH_SIZE || strlen(r.target) + SUFFIX_ROOM > STORE_PATH_SIZE)
        return tool_usage(args, "the directory name is too long");
    int status = restore(&r, &verified, &member);
    if (status == EXIT_FINE)
        print_restored(tool, &r, &verified, &member, steady_ms() - from_ms, &out);
    else
        print_refusal(tool, &r, &out);
    return store_finish(&r.store, &out, status);
}
