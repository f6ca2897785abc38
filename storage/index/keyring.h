/* keyring.h: a key for every task, each of which can be destroyed alone.
 *
 * Contents that move into LMDB are enciphered with it, because LMDB leaves stale copies of what it deletes in free
 * pages and in the slack of others, where nobody can find them: without the key they are noise. The keyring itself is
 * one small file that is replaced as a whole, and what it replaces is overwritten.
 *
 *                       ·  (destroyed)              A key is derived from the root along the 64 bits of the id
 *                     /   \                         (BLAKE2b, crypto_kdf). To destroy one, the file keeps the nodes
 *                   ▣       ·                       beside its path and loses those on it: whoever has the file can
 *                         /   \                     derive every other key, and never this one.
 *                       ·       ▣                   Goldreich, Goldwasser, Micali, "How to construct random functions"
 *                      / \                          (1986); punctured as in Boneh, Waters (2013).
 *                     ▣   x ◀─ id
 *
 * A destroyed key costs at most 64 nodes of 48 bytes; those of neighbours share most of them.
 * File: DIR/index/keyring (FORMAT.md). Any thread, but for destroying: one at a time. */
#ifndef TARRY_STORAGE_KEYRING_H
#define TARRY_STORAGE_KEYRING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYRING_NAME "keyring"

struct keyring;

/* A new one, with a random root, unless there is one in `directory` already. 0 or a negative errno. */
int keyring_make(const char *directory, bool no_sync);
/* Reads it, and ends what a crash interrupted. INDEX_DAMAGED: it is missing or malformed. */
int keyring_open(struct keyring **out, const char *directory, bool read_only, bool no_sync);
void keyring_close(struct keyring *keyring); /* NULL is fine; no key stays in memory */

/* Enciphers or deciphers in place: the same call does both. One content a task, which never changes. 1: the key has
 * been destroyed. */
int keyring_apply(struct keyring *keyring, uint64_t id, void *data, size_t size);

/* What it takes of memory: 5 MiB once a key was asked for. */
size_t keyring_bytes(struct keyring *keyring);

/* Puts a copy into another index's directory, which has none: what was destroyed stays so. Nobody may destroy keys
 * meanwhile. 0 or a negative errno. */
int keyring_copy(const struct keyring *keyring, const char *directory);

/* Destroys keys, durably. Idempotent. 0, -ENOMEM, or a negative errno: -ENOSPC is harmless and may be repeated. */
int keyring_destroy(struct keyring *keyring, const uint64_t *ids, size_t count);

#endif
