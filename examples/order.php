<?php
// order.php: an order that is not paid within two seconds is closed. As a service of yours would say it: 30m.
declare(strict_types=1);

/** What the broker answers; an exception if it refuses. */
function call(string $method, string $path, ?array $body = null): array
{
    $headers = ['Content-Type: application/json'];
    if (getenv('TARRY_TOKEN')) {
        $headers[] = 'Authorization: Bearer ' . getenv('TARRY_TOKEN');
    }
    $http = ['method' => $method, 'header' => $headers, 'ignore_errors' => true, 'timeout' => 60, 'protocol_version' => 1.1];
    if ($body !== null) {
        $http['content'] = json_encode($body, JSON_THROW_ON_ERROR);
    }
    $url = (getenv('TARRY_HTTP') ?: 'http://127.0.0.1:7272') . '/v1' . $path;
    $answer = file_get_contents($url, false, stream_context_create(['http' => $http]));
    if ($answer === false || !preg_match('#^HTTP/\S+ 2#', $http_response_header[0])) {
        throw new RuntimeException("$method $path: " . ($answer ?: 'no answer'));
    }
    return json_decode($answer, true, flags: JSON_THROW_ON_ERROR);
}

// Two orders are placed.
foreach (['order-1', 'order-2'] as $order) {
    call('POST', '/queues/close-order/tasks', ['key' => $order, 'in' => '2s', 'json' => ['order' => $order]]);
}

// The first is paid in time. With 0 deliveries no consumer has seen the task, and none ever will.
$paid = call('DELETE', '/queues/close-order/tasks/order-1');
echo "order-1 paid, {$paid['deliveries']} seen\n";

// The second is not. What is leased is ours for 30 s (the queue's policy); if we die, somebody else gets it.
foreach (call('POST', '/queues/close-order/lease', ['max' => 1, 'wait' => '20s'])['tasks'] as $task) {
    echo "{$task['key']} closed, attempt {$task['attempt']}\n";
    call('POST', '/ack', ['id' => $task['id'], 'token' => $task['token']]);
}
