-- The one request of every run, for wrk. Its numbers leave as one line of JSON.
wrk.method = "POST"
wrk.headers["Authorization"] = "Bearer " .. os.getenv("PLANTS_TOKEN")
wrk.headers["Content-Type"] = "application/json"
wrk.body = os.getenv("BENCH_BODY")

-- Each request has a field of its own, as long as a UUID: its key, or one that no server reads, as
-- long as that, so that both loads cost the generator the same. Two runs never share a key.
local name = os.getenv("BENCH_KEYS") and "Idempotency-Key" or "X-Ignored-Field"
local bytes = io.open("/dev/urandom", "rb"):read(12)
local prefix = bytes:gsub(".", function(byte) return string.format("%02x", byte:byte()) end)
local count = 0
local before, after

-- Formats the request once: a generator that is slower than the server makes its batches small.
init = function()
  wrk.headers[name] = "KEY"
  before, after = wrk.format():match("^(.*)KEY(.*)$")
end
request = function()
  count = count + 1
  return before .. prefix .. string.format("-%011d", count) .. after
end

done = function(summary, latency, requests)
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('numbers {"requests":%d,"micros":%d,"refused":%d,"broken":%d,',
    summary.requests, summary.duration, errors.status, broken))
  io.write(string.format('"p50":%d,"p99":%d,"p999":%d,"max":%d}\n', latency:percentile(50),
    latency:percentile(99), latency:percentile(99.9), latency.max))
end
