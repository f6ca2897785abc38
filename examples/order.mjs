// order.mjs: an order that is not paid within two seconds is closed. As a service of yours would say it: 30m. Node 18 or later.
const broker = (process.env.TARRY_HTTP ?? "http://127.0.0.1:7272") + "/v1";

/** Returns the broker's answer; throws an Error if the broker refuses. */
async function call(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  if (process.env.TARRY_TOKEN) headers.Authorization = `Bearer ${process.env.TARRY_TOKEN}`;
  const answer = await fetch(broker + path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

// Two orders are placed.
for (const order of ["order-1", "order-2"]) {
  await call("POST", "/queues/close-order/tasks", { key: order, in: "2s", json: { order } });
}

// The first is paid in time. With 0 deliveries no consumer has seen the task, and none ever will.
const paid = await call("DELETE", "/queues/close-order/tasks/order-1");
console.log(`order-1 paid, ${paid.deliveries} seen`);

// The second is not. What is leased is ours for 30 s (the queue's policy); if we die, somebody else gets it.
const { tasks } = await call("POST", "/queues/close-order/lease", { max: 1, wait: "20s" });
for (const { id, token, key, attempt } of tasks) {
  console.log(`${key} closed, attempt ${attempt}`);
  await call("POST", "/ack", { id, token });
}
