-- The one request of every run, for wrk. Its numbers leave as one line of JSON.
wrk.method = "POST"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("PLANTS_TOKEN")
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("BENCH_BODY")

-- Each request has a key of its own, as long as a UUID. Two runs never share one.
if os.getenv("BENCH_KEYS") then
  local bytes = io.open("/dev/urandom", "rb"):read(12)
  local prefix = bytes:gsub(".", function(byte) return string.format("%02x", byte:byte()) end)
  local count = 0
  local before, after

  -- Formats the request once: a generator that is slower than the server makes its batches small.
  init = function()
    wrk.headers["Idempotency-Key"] = "KEY"
    before, after = wrk.format():match("^(.*)KEY(.*)$")
  end
  request = function()
    count = count + 1
    return before .. prefix .. string.format("-%011d", count) .. after
  end
end

done = function(summary, latency, requests)
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('numbers {"requests":%d,"micros":%d,"refused":%d,"broken":%d,',
    summary.requests, summary.duration, errors.status, broken))
  io.write(string.format('"p50":%d,"p99":%d,"p999":%d,"max":%d}\n', latency:percentile(50),
    latency:percentile(99), latency:percentile(99.9), latency.max))
end
