<?php
const SECRET = '{secret}';

// header: $_SERVER['HTTP_X_CONNECT_SIGNATURE'] ?? '', body: file_get_contents('php://input')
function verify(string $header, string $body): bool {
    $parts = array_map(fn ($part) => explode('=', $part, 2) + [1 => ''], explode(',', $header));
    $times = array_values(array_filter($parts, fn ($part) => $part[0] === 't'));
    if (count($times) !== 1 || !preg_match('/^[0-9]{1,12}$/D', $times[0][1]) || abs(time() - (int) $times[0][1]) > 300) {
        return false;
    }
    $mac = hash_hmac('sha256', $times[0][1] . '.' . $body, SECRET);
    $matching = array_filter($parts, fn ($part) => $part[0] === 'v1' && hash_equals($mac, $part[1]));
    return $matching !== [];
}
