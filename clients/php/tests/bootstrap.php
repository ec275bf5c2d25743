<?php

declare(strict_types=1);

// Loads the classes from the source tree, as Composer would from the package.
error_reporting(\E_ALL);
spl_autoload_register(static function (string $class): void {
    foreach (['Leafd\\Tests\\' => __DIR__, 'Leafd\\' => __DIR__ . '/../src'] as $prefix => $folder) {
        if (str_starts_with($class, $prefix)) {
            $file = $folder . '/' . str_replace('\\', '/', substr($class, \strlen($prefix))) . '.php';
            if (is_file($file)) {
                require $file;
            }

            return;
        }
    }
});
require __DIR__ . '/functions.php';
