#!/usr/bin/env ruby
# frozen_string_literal: true

# Archives a file: copies it, then reads the copy back. The payload is {"from": "/path", "to": "/path"}.
#
# The result is {"bytes": n, "sha256": "..."}. An attempt that ends between the two steps does not copy again.

require "digest"
require_relative "leasehold"

BLOCK = 1 << 20

def copy(job, source, target)
  size = [File.size(source), 1].max
  done = 0
  digest = Digest::SHA256.new
  part = "#{target}.#{job.id}.part"
  File.open(source, "rb") do |from|
    File.open(part, "wb") do |to|
      while (block = from.read(BLOCK))
        raise Leasehold::Cancelled if job.cancelled

        to.write(block)
        digest << block
        done += block.bytesize
        job.progress(90.0 * done / size, "copied #{done} bytes")
      end
      to.fsync
    end
  end
  File.rename(part, target)
  { bytes: done, sha256: digest.hexdigest }
ensure
  File.unlink(part) if part && File.exist?(part)
end

def verify(job, target, copied)
  job.progress(90, "reading it back")
  return if Digest::SHA256.file(target).hexdigest == copied["sha256"]

  raise Leasehold::Dead, "#{target} is not what was copied"
end

Leasehold.serve do |job|
  source, target = job.payload.values_at("from", "to") if job.payload.is_a?(Hash)
  raise Leasehold::Dead, 'the payload is not {"from": "...", "to": "..."}' unless source.is_a?(String) && target.is_a?(String)
  raise Leasehold::Dead, "#{source} does not exist" unless File.exist?(source) || File.exist?(target)

  copied = job.step("copied") { copy(job, source, target) }
  job.step("verified") { verify(job, target, copied) }
  copied
end
