# frozen_string_literal: true

# Run Leasehold jobs in a warm Ruby process (a handler with <tt>type = "stream"</tt>).
#
#   require_relative "leasehold"
#
#   Leasehold.serve do |job|
#     deliver(job.payload["to"], job.payload["text"])
#     { sent: true }
#   end
#
#   Leasehold.serve("mail.send" => method(:deliver_job), "mail.bounce" => ->(job) { bounce(job) })   # by kind
#
# A handler takes a Job and returns the job's result: anything that JSON.generate takes, a String (kept as text), or nil for no
# result. How it ends says what becomes of the job:
#
# [return]                             succeeded
# [raise Dead, text]                   never tried again
# [raise Retry, text]                  tried again after the backoff
# [raise Retry.new(text, after: 30)]   tried again after so many seconds
# [raise Snooze.new(60)]               run again in so many seconds, and not counted as an attempt
# [raise Cancelled]                    stopped because Job#cancelled said so
# [any other exception]                tried again, with its class and message as the error; the backtrace goes to the log
#
# A result that JSON cannot hold makes the job dead: trying again would not help.
#
# While serve runs, descriptor 1 is standard error, so puts writes to Leasehold's log, and descriptor 0 is /dev/null. Print nothing
# to standard output before. serve returns when Leasehold has no more work for this process. Needs Ruby 2.7 and nothing else.

require "json"

module Leasehold
  PROTOCOL = 1
  ERROR_BYTES = 500
  NOTE_BYTES = 1020 # 255 characters are kept
  DEEPEST = 90 # Leasehold takes no line that is nested more than 100 deep
  LONGEST_DELAY_S = 31_622_400 # a year
  private_constant :ERROR_BYTES, :NOTE_BYTES, :DEEPEST, :LONGEST_DELAY_S

  # The attempt failed: try again after +after+ seconds (0 to 31622400; nil: after the backoff).
  class Retry < StandardError
    attr_reader :after_ms # :nodoc:

    def initialize(message = nil, after: nil)
      super(message)
      @after_ms = after && Leasehold.milliseconds(after)
    end
  end

  # The job cannot succeed: do not try again.
  class Dead < StandardError; end

  # It is too early: run again after so many seconds (0 to 31622400). The attempt is not counted.
  class Snooze < StandardError
    attr_reader :after_ms # :nodoc:

    def initialize(after)
      super("again in #{after} s")
      @after_ms = Leasehold.milliseconds(after)
    end
  end

  # The handler stopped because it was asked to. Without a request, this is an error like any other.
  class Cancelled < StandardError; end

  # Leasehold could not save a step, because the lease is lost, say. Let it end the attempt: it is tried again.
  class StepNotSaved < StandardError; end

  # Runs jobs until Leasehold closes the pipe: with the block for every kind, or with a Hash of kind to anything that has +call+.
  def self.serve(handlers = nil, &block)
    channel = Channel.new
    hello = channel.receive or return
    protocol = hello["hello"]["protocol"] if hello["hello"].is_a?(Hash)
    abort "leasehold.rb speaks protocol #{PROTOCOL}, but was greeted with #{clean(hello.to_json, 200)}" unless protocol == PROTOCOL
    channel.write(encode("hello" => { "protocol" => PROTOCOL, "client" => "leasehold.rb 1" }))
    while (message = channel.receive)
      next unless message["job"] # a request to cancel the job before may still come

      job = Job.new(channel, message["job"])
      job.run(block || handlers[job.kind])
    end
  rescue Errno::EPIPE
    nil # Leasehold is gone
  end

  # One attempt at a job.
  class Job
    # +id+ and +claim_no+ are together the fencing token for other systems: +claim_no+ grows with every claim.
    attr_reader :id, :claim_no
    attr_reader :kind, :queue
    # The first attempt is 1.
    attr_reader :attempt, :max_attempts
    # A UUID, and the length in milliseconds of the lease, which is renewed while the handler runs.
    attr_reader :lease_id, :lease_ms
    # How long the handler may run, in milliseconds; 0 is without limit.
    attr_reader :timeout_ms
    # The W3C trace context of whoever enqueued the job, or nil.
    attr_reader :traceparent
    # The payload as it is in the table.
    attr_reader :payload_text

    def initialize(channel, job) # :nodoc:
      @channel = channel
      @id, @claim_no, @kind, @queue, @attempt, @max_attempts, @lease_id, @lease_ms, @timeout_ms, @traceparent, @payload_text =
        job.values_at("id", "claim_no", "kind", "queue", "attempt", "max_attempts", "lease_id", "lease_ms", "timeout_ms",
                      "traceparent", "payload")
      @steps = job["steps"] || {}
      @reason = nil
      @ended = false
    end

    # The payload, decoded. Raises Dead if it is not JSON; then only payload_text is of use.
    def payload
      Leasehold.decode(@payload_text)
    rescue JSON::ParserError => e
      raise Dead, "the payload is not JSON: #{e.message}"
    end

    # Reports how far the work is (0 to 100; what lies outside is moved to the edge), what it is at, or both. Does not wait.
    def progress(percent = nil, note = nil)
      message = {}
      message["progress"] = percent.to_f.nan? ? 0 : percent.to_f.clamp(0, 100) if percent
      message["note"] = Leasehold.clean(note, NOTE_BYTES) if note
      send_message(message) unless message.empty?
      nil
    end

    # Why the job is to end early: "cancel", "timeout", "lease" or "shutdown"; nil if it is not. Does not wait.
    #
    # SIGTERM follows soon after such a request, then SIGKILL. Who stops before keeps the process.
    def cancelled
      while @reason.nil? && (message = @channel.receive(wait: false))
        note_cancel(message)
      end
      @reason
    end

    # Yields once for all attempts of this job, and returns what the block returned, as JSON gives it back.
    #
    # If an earlier attempt saved the step, the block is not called. Otherwise its result is saved (nil is fine; all steps of a job
    # have 64 KiB together), and step returns once that is committed; StepNotSaved says that it is not. The name has 1 to 64
    # characters of <tt>A-Z a-z 0-9 _ . : -</tt>; a job may have 64.
    def step(name)
      name = name.to_s
      raise ArgumentError, "not a name for a step: #{name}" unless name.match?(/\A[A-Za-z0-9_.:-]{1,64}\z/)

      unless @steps.key?(name)
        data = yield
        text = Leasehold.encode(data) { |why| raise Dead, "step #{name} cannot be written as JSON: #{why}" }
        send_message("step" => name, "data" => data)
        await_saved(name)
        @steps[name] = Leasehold.decode(text)
      end
      @steps[name]
    end

    def run(handler) # :nodoc:
      answer = outcome(handler)
      text = Leasehold.encode(answer) do |why|
        Leasehold.encode("outcome" => "dead", "error" => Leasehold.clean("the result cannot be written as JSON: #{why}"))
      end
      write(text)
      @ended = true
    end

    private

    def await_saved(name)
      while (message = @channel.receive)
        answer = message["step"]
        if answer && ours?(answer) && answer["name"] == name
          return if answer["saved"] == true

          raise StepNotSaved, "step #{name} was not saved: #{answer['why'] || 'no reason given'}"
        end
        note_cancel(message)
      end
      raise StepNotSaved, "step #{name} was not saved: Leasehold is gone"
    end

    def note_cancel(message)
      cancel = message["cancel"]
      @reason = cancel["reason"] if cancel && ours?(cancel)
    end

    def ours?(other)
      other["id"] == @id && other["claim_no"] == @claim_no
    end

    # What the handler comes to, as a message.
    def outcome(handler)
      raise KeyError, "no handler for the kind #{@kind}" unless handler

      result = handler.call(self)
      { "outcome" => "succeeded", "result" => result }.compact
    rescue Retry => e
      { "outcome" => "retry", "error" => Leasehold.clean(e.message), "retry_after_ms" => e.after_ms }.compact
    rescue Snooze => e
      { "outcome" => "snooze", "snooze_ms" => e.after_ms }
    rescue Dead => e
      { "outcome" => "dead", "error" => Leasehold.clean(e.message) }
    rescue StandardError, ScriptError, SystemStackError, NoMemoryError => e
      return { "outcome" => "cancelled" } if e.is_a?(Cancelled) && cancelled

      warn e.full_message(highlight: false)
      { "outcome" => "retry", "error" => Leasehold.clean("#{e.class}: #{e.message}") }
    end

    def send_message(message)
      write(Leasehold.encode(message))
    end

    def write(text)
      raise "this job has ended" if @ended

      @channel.write("{\"id\":#{@id},\"claim_no\":#{@claim_no},#{text[1..]}")
    end
  end

  # The two pipes to Leasehold: messages are JSON objects, one a line.
  class Channel # :nodoc:
    def initialize
      @in = STDIN.dup.binmode # not inherited by programs that a handler starts
      @out = STDOUT.dup.binmode
      @out.sync = true
      STDIN.reopen(File::NULL)
      STDOUT.reopen(STDERR)
      STDOUT.sync = true
      @buffer = String.new
      @searched = 0
    end

    # The next message; nil at the end, and, without +wait+, if there is none yet.
    def receive(wait: true)
      until (stop = @buffer.index("\n", @searched))
        @searched = @buffer.bytesize
        return unless wait || IO.select([@in], nil, nil, 0)

        begin
          @buffer << @in.readpartial(65_536)
        rescue EOFError
          return
        end
      end
      @searched = 0
      message(@buffer.slice!(0..stop))
    end

    def write(text)
      @out.write("#{text}\n")
    end

    private

    def message(line)
      line.force_encoding(Encoding::UTF_8)
      message = JSON.parse(line, max_nesting: false) if line.valid_encoding?
      message.is_a?(Hash) ? message : raise(JSON::ParserError)
    rescue JSON::ParserError
      abort "leasehold.rb: this is no message of Leasehold: #{Leasehold.clean(line, 200)}"
    end
  end
  private_constant :Channel

  class << self
    # JSON that Leasehold can read: in UTF-8, not too deep, and with no whole number beyond 64 bits. What cannot be written goes to
    # the block, which is told why; without one it raises.
    def encode(value) # :nodoc:
      text = JSON.generate(value, max_nesting: DEEPEST)
      text.scan(/"(?:[^"\\]|\\.)*"|-?[0-9.]{19,}(?![0-9.eE])/) do |token|
        raise RangeError, "#{token} does not fit into 64 bits" if token.match?(/\A-?\d+\z/) && token.to_i.bit_length > 63
      end
      text
    rescue StandardError, SystemStackError => e
      raise unless block_given?

      yield e.message
    end

    def decode(text) # :nodoc:
      JSON.parse(text, max_nesting: 512)
    end

    # Text that can be sent whatever is in it, cut between two characters. Bytes are taken for UTF-8.
    def clean(text, limit = ERROR_BYTES) # :nodoc:
      text = text.to_s.dup
      text.force_encoding(Encoding::UTF_8) if [Encoding::BINARY, Encoding::US_ASCII].include?(text.encoding)
      text.encode(Encoding::UTF_8, undef: :replace, invalid: :replace).scrub.byteslice(0, limit).scrub("")
    end

    def milliseconds(seconds) # :nodoc:
      raise ArgumentError, "not a delay of 0 to #{LONGEST_DELAY_S} seconds: #{seconds}" unless seconds.between?(0, LONGEST_DELAY_S)

      (seconds * 1000).round
    end
  end
end
