#!/usr/bin/env python3
"""order.py: an order that is not paid within two seconds is closed. (A real service would wait 30 minutes: 30m.)"""
import json
import os
import urllib.request

BROKER = os.environ.get("TARRY_HTTP", "http://127.0.0.1:7272") + "/v1"


def call(method, path, body=None):
    """Returns the broker's answer; raises an HTTPError if the broker refuses (its body gives the reason)."""
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("TARRY_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(BROKER + path, method=method, headers=headers, data=json.dumps(body).encode() if body else None)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


# Two orders are placed.
for order in ("order-1", "order-2"):
    call("POST", "/queues/close-order/tasks", {"key": order, "in": "2s", "json": {"order": order}})

# The first order is paid in time. With 0 deliveries no consumer has seen the task, and none ever will.
paid = call("DELETE", "/queues/close-order/tasks/order-1")
print(f"order-1 paid, {paid['deliveries']} seen")

# The second order is not paid. A leased task is reserved for this program for 30 s (the queue's policy). If the program
# dies, the broker gives the task to another consumer.
for task in call("POST", "/queues/close-order/lease", {"max": 1, "wait": "20s"})["tasks"]:
    print(f"{task['key']} closed, attempt {task['attempt']}")
    call("POST", "/ack", {"id": task["id"], "token": task["token"]})
