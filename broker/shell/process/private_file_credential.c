/* private_file_credential.c: see private_file.h. */
#include "private_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *directory(void) {
    const char *path = getenv("CREDENTIALS_DIRECTORY");
    return path != NULL && path[0] == '/' ? path : NULL;
}

bool credential_find(const char *name, char *out, size_t size) {
    char path[CREDENTIAL_PATH_SIZE];
    if (directory() == NULL) return false;
    int length = snprintf(path, sizeof(path), "%s/%s", directory(), name);
    if (length <= 0 || (size_t)length >= size || (size_t)length >= sizeof(path) || access(path, F_OK) != 0)
        return false;
    memcpy(out, path, (size_t)length + 1);
    return true;
}

bool credential_is(const char *path) {
    size_t length = directory() != NULL ? strlen(directory()) : 0;
    return length > 0 && strncmp(path, directory(), length) == 0 && path[length] == '/' &&
           strchr(path + length + 1, '/') == NULL;
}
