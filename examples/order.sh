#!/bin/sh
# order.sh: with curl, an order that is not paid within two seconds is closed. (A real service would wait 30 minutes:
# 30m.)
set -eu
broker=${TARRY_HTTP:-http://127.0.0.1:7272}/v1

call() {   # call METHOD PATH [JSON]: what the broker answers; ends the script if that is a refusal
    curl --silent --show-error --fail-with-body --request "$1" "$broker$2" ${3:+--json "$3"} \
        ${TARRY_TOKEN:+--header "Authorization: Bearer $TARRY_TOKEN"}
}

member() {   # member NAME: of the first object in a JSON text that has it
    sed 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/'
}

# Two orders are placed.
for order in order-1 order-2; do
    call POST /queues/close-order/tasks '{"key": "'$order'", "in": "2s", "json": {"order": "'$order'"}}' >/dev/null
done

# The first order is paid in time. With 0 deliveries no consumer has seen the task, and none ever will.
seen=$(call DELETE /queues/close-order/tasks/order-1 | member deliveries)
echo "order-1 paid, $seen seen"

# The second order is not paid. A leased task is reserved for this program for 30 s (the queue's policy). If the program
# dies, the broker gives the task to another consumer.
leased=$(call POST /queues/close-order/lease '{"max": 1, "wait": "20s"}')
echo "$(echo "$leased" | member key) closed, attempt $(echo "$leased" | member attempt)"
call POST /ack '{"id": "'"$(echo "$leased" | member id)"'", "token": "'"$(echo "$leased" | member token)"'"}' >/dev/null
