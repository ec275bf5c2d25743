<?php

// One request at a time: a bare echo, and the client. Prints a line of JSON; see tests/measure-clients. There is
// no pool; the batch takes its place.

declare(strict_types=1);

require 'vendor/autoload.php';

$calls = (int) getenv('CALLS');
$pooled = (int) getenv('POOLED');
$request = str_repeat("\0", (int) getenv('SIZE'));
$size = (int) getenv('ANSWER');
$bare = stream_socket_client('unix://' . getenv('ECHO')) ?: exit(1);
$echo = static function () use ($bare, $request, $size): void {
    fwrite($bare, $request);
    for ($left = $size; $left > 0;) {
        $left -= strlen((string) fread($bare, $left));
    }
};
$leafd = new Leafd\Client();
$next = static fn (): int => $leafd->next('speed');
$batch = $leafd->batch('pooled', 1000);
$fromBatch = static fn (): int => $batch->next();
$rate = static function (callable $call, int $count): float {
    $began = hrtime(true);
    for ($i = 0; $i < $count; $i++) {
        $call();
    }
    return $count * 1e9 / (hrtime(true) - $began);
};
$rate($echo, intdiv($calls, 4));
$rate($next, intdiv($calls, 4));
$rates = ['echo' => [], 'client' => [], 'pool' => []];
for ($round = 0; $round < (int) getenv('ROUNDS'); $round++) {
    $rates['echo'][] = $rate($echo, $calls);
    $rates['client'][] = $rate($next, $calls);
}
for ($round = 0; $round < 3; $round++) {
    $rates['pool'][] = $rate($fromBatch, $pooled);
}
echo json_encode($rates), "\n";
