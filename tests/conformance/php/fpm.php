<?php

declare(strict_types=1);

// Storms a real php-fpm: see the script `fpm`, which prepares its project.

require __DIR__ . '/FastCgi.php';
require __DIR__ . '/SlowProxy.php';

const TAGS = 5;
const CLIENTS = 6;
/** The IDs of each tag begin at a multiple of this. */
const APART = 1_000_000_000_000;

[, $work, $socket] = $argv;
$requests = (int) (getenv('FPM_STORM_REQUESTS') ?: 3000);

$tags = makeTags($socket);
mkdir("$work/notes");
$proxy = forked(static fn () => (new SlowProxy("$work/proxy.sock", $socket))->serve("$work/proxy.json"));
$fpm = startFpm($work);
$started = microtime(true);
try {
    await(static fn () => file_exists("$work/fpm.sock") && file_exists("$work/proxy.sock"));
    $clients = [];
    for ($i = 0; $i < CLIENTS; ++$i) {
        $clients[] = forked(static fn () => drive($work, $tags, intdiv($requests, CLIENTS), $i));
    }
    $killed = 0;
    while ($clients !== []) {
        usleep(250_000);
        $clients = array_filter($clients, static fn (int $pid): bool => pcntl_waitpid($pid, $status, WNOHANG) === 0);
        $workers = workers($fpm);
        if ($workers !== [] && $clients !== []) {
            $killed += (int) posix_kill($workers[array_rand($workers)], SIGKILL);
        }
    }
} finally {
    // By their IDs, and nothing else.
    posix_kill($fpm, SIGTERM);
    pcntl_waitpid($fpm, $status);
    posix_kill($proxy, SIGTERM);
    pcntl_waitpid($proxy, $status);
}
report($work, $tags, $requests, $killed, microtime(true) - $started);

/**
 * Creates tags whose IDs are far apart, by frames written by hand: the client has no administrative calls.
 *
 * @return list<string>
 */
function makeTags(string $socket): array
{
    $tags = [];
    $stream = stream_socket_client("unix://$socket");
    $ask = static function (string $body) use ($stream): string {
        fwrite($stream, pack('N', \strlen($body)) . $body);

        return (string) fread($stream, unpack('N', (string) fread($stream, 4))[1]);
    };
    $ask(pack('PV', 1, 0) . "LEAF\1\0");
    $run = bin2hex(random_bytes(4));
    for ($i = 1; $i <= TAGS; ++$i) {
        $tag = "fpm-$run-$i";
        $answer = $ask(pack('PVP', 1 + $i, 7, \strlen($tag)) . $tag . pack('VPP', 1000, $i * APART, 0));
        if (unpack('V', $answer, 8)[1] === 0) {
            throw new RuntimeException("cannot create the tag $tag: " . substr($answer, 34));
        }
        $tags[] = $tag;
    }

    return $tags;
}

function startFpm(string $work): int
{
    $binaries = array_filter(
        ['/usr/sbin/php-fpm' . PHP_MAJOR_VERSION . '.' . PHP_MINOR_VERSION, '/usr/sbin/php-fpm', '/usr/local/sbin/php-fpm'],
        is_executable(...),
    );
    $binary = reset($binaries) ?: throw new RuntimeException('php-fpm is not installed');
    $root = posix_geteuid() === 0;
    $user = $root ? "user = root\ngroup = root" : '';
    file_put_contents("$work/fpm.conf", <<<INI
        [global]
        daemonize = no
        error_log = $work/fpm.log
        process_control_timeout = 1s
        [www]
        $user
        listen = $work/fpm.sock
        listen.backlog = 256
        pm = static
        pm.max_children = 4
        request_terminate_timeout = 3s
        catch_workers_output = yes
        env[LEAFD_SOCKET] = $work/proxy.sock
        env[FPM_STORM_NOTES] = $work/notes
        php_admin_value[memory_limit] = 64M
        php_admin_value[error_log] = $work/php.log
        php_admin_flag[log_errors] = on
        php_admin_flag[display_errors] = off
        php_admin_flag[ignore_user_abort] = off
        INI);
    $pid = pcntl_fork();
    if ($pid === 0) {
        pcntl_exec($binary, ['-F', ...($root ? ['-R'] : []), '-y', "$work/fpm.conf"]);
        exit(1);
    }

    return $pid;
}

/** @return list<int> the workers of this php-fpm */
function workers(int $fpm): array
{
    $children = trim((string) @file_get_contents("/proc/$fpm/task/$fpm/children"));

    return $children === '' ? [] : array_map(intval(...), explode(' ', $children));
}

/**
 * One client: requests one after the other, many of them cut off.
 *
 * @param list<string> $tags
 */
function drive(string $work, array $tags, int $requests, int $number): void
{
    $web = new FastCgi("$work/fpm.sock");
    // What leaves an answer under way comes more often.
    $ways = ['half-written', 'half-read', 'exit', 'exit', 'exit', 'fatal', 'fatal', 'throw', 'kill', 'abort'];
    $done = [];
    for ($i = 0; $i < $requests; ++$i) {
        $cut = match (true) {
            $i === 50, $i === 150 => 'hang',
            $i === 100, $i === 200 => 'time',
            mt_rand(0, 9) < 4 => $ways[array_rand($ways)],
            default => '',
        };
        $query = http_build_query([
            'tags' => implode(',', $tags),
            'calls' => mt_rand(1, 8),
            'cut' => $cut,
            'patience' => mt_rand(1, 20),
        ]);
        $output = $web->request([
            'GATEWAY_INTERFACE' => 'CGI/1.1',
            'REQUEST_METHOD' => 'GET',
            'SCRIPT_FILENAME' => "$work/project/fpm-request.php",
            'SCRIPT_NAME' => '/fpm-request.php',
            'QUERY_STRING' => $query,
            'SERVER_PROTOCOL' => 'HTTP/1.1',
        ], $cut === 'abort' ? mt_rand(0, 15_000) / 1e6 : null);
        $whole = $output !== null && str_ends_with($output, 'done');
        $key = ($cut === '' ? 'plain' : $cut) . ($whole ? ' whole' : ' cut');
        $done[$key] = ($done[$key] ?? 0) + 1;
    }
    file_put_contents("$work/client-$number.json", json_encode($done));
}

/** @param list<string> $tags */
function report(string $work, array $tags, int $requests, int $killed, float $seconds): void
{
    $runs = array_fill_keys($tags, []);
    $errors = [];
    $foreign = [];
    foreach (glob("$work/notes/*") ?: [] as $file) {
        foreach (file($file, FILE_IGNORE_NEW_LINES) ?: [] as $line) {
            [$tag, $first, $count] = explode(' ', $line) + ['', '', ''];
            if (!isset($runs[$tag])) {
                $errors[$tag] = ($errors[$tag] ?? 0) + 1;
                continue;
            }
            $runs[$tag][] = [(int) $first, (int) $count];
            if (intdiv((int) $first, APART) !== 1 + array_search($tag, $tags, true)) {
                $foreign[] = $line;
            }
        }
    }
    $ids = 0;
    $twice = [];
    foreach ($runs as $tag => $list) {
        sort($list);
        $end = -1;
        foreach ($list as [$first, $count]) {
            if ($first <= $end) {
                $twice[] = "$tag $first";
            }
            $end = max($end, $first + $count - 1);
            $ids += $count;
        }
    }
    $ended = [];
    foreach (glob("$work/client-*.json") ?: [] as $file) {
        foreach (json_decode((string) file_get_contents($file), true) as $how => $count) {
            $ended[$how] = ($ended[$how] ?? 0) + $count;
        }
    }
    ksort($ended);
    // Calls with a timeout of a few ms are meant to fail now and then; no other is.
    $unexpected = array_diff_key($errors, ['impatient' => 0]);
    $proxy = json_decode((string) file_get_contents("$work/proxy.json"), true);
    // A request that finds the socket of an earlier one says hello there again.
    $inherited = $proxy['hellos'] - $proxy['connections'];
    $ok = $twice === [] && $foreign === [] && $unexpected === [] && $ids > 0 && $inherited > 0;
    echo json_encode([
        'ok' => $ok,
        'seconds' => round($seconds, 1),
        'requests' => $requests,
        'ended' => $ended,
        'ids' => $ids,
        'twice' => \array_slice($twice, 0, 10),
        'under another tag' => \array_slice($foreign, 0, 10),
        'errors' => $errors,
        'workers killed' => $killed,
        'sockets inherited' => $inherited,
        'proxy' => $proxy,
    ], JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES), "\n";
    exit($ok ? 0 : 1);
}

function forked(callable $work): int
{
    $pid = pcntl_fork();
    if ($pid === 0) {
        $work();
        exit(0);
    }

    return $pid;
}

function await(callable $condition): void
{
    for ($i = 0; $i < 1000 && !$condition(); ++$i) {
        usleep(10_000);
    }
}
