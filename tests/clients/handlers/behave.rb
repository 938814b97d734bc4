# frozen_string_literal: true

# One handler for each behaviour that tests/clients asks of every language; see test_client_outcomes.py for what each must come to.
require_relative "../../../clients/ruby/leasehold"

kept = nil

charge = lambda do
  puts "ran charge"
  { amount: 12, who: "ü" }
end

stop = lambda do |job|
  job.progress(1)
  sleep 0.005 until (reason = job.cancelled)
  raise Leasehold::Cancelled if job.payload["then"] == "raise"
  raise ArgumentError, "stopped by #{reason}" if job.payload["then"] == "fail"

  reason
end

Leasehold.serve(
  "echo" => ->(job) { job.payload },
  "raw" => ->(job) { job.payload_text },
  "nothing" => ->(_) {},
  "pid" => ->(_) { Process.pid },
  "describe" => lambda do |job|
    names = %i[claim_no kind queue attempt max_attempts lease_id lease_ms timeout_ms traceparent payload_text]
    { id: job.id.to_s, **names.to_h { |name| [name, job.public_send(name)] } }
  end,
  "size" => ->(job) { [job.payload_text.bytesize, job.payload_text[-9..]] },
  "fail" => ->(job) { raise ArgumentError, job.payload["message"] },
  "retry" => lambda do |job|
    raise Leasehold::Retry.new(job.payload["message"], after: job.payload["ms"]&.fdiv(1000))
  end,
  "snooze" => ->(job) { raise Leasehold::Snooze, job.payload["ms"].fdiv(1000) },
  "dead" => ->(job) { raise Leasehold::Dead, job.payload["message"] },
  "cancelled" => ->(_) { raise Leasehold::Cancelled },
  "progress" => lambda do |job|
    job.progress(0)
    job.progress(40.5, "half ünd")
    job.progress(nil, "n" * 2000)
    job.progress(250)
    job.progress(-5)
  end,
  "steps" => ->(job) { [job.step(:charged, &charge), job.step("mailed") { nil }, job.cancelled] },
  "again" => ->(job) { [job.step("charged", &charge), job.step("charged", &charge)] },
  "name" => ->(job) { job.step(job.payload["name"]) { 1 } },
  "stop" => stop,
  "busy" => stop,
  "look" => ->(job) { job.cancelled || "no" },
  "print" => lambda do |_|
    puts "printed"
    $stdout.print "hé\n"
    STDOUT.syswrite "written\n"
    system "sh", "-c", "echo from the child; cat"
    "read #{$stdin.read.size}"
  end,
  "unencodable" => lambda do |job|
    value = { "object" => Float::INFINITY, "text" => "\xff", "number" => Float::NAN }[job.payload["what"]]
    job.payload["where"] == "step" ? job.step("odd") { value } : value
  end,
  "keep" => lambda do |job|
    kept = job
    nil
  end,
  "late" => ->(_) { kept.progress(1) }
)
