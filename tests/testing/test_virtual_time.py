"""A clock that jumps: what follows it, and what makes it wait."""

import asyncio
import os
import random
import socket
import subprocess
import sys
import threading
import time

import pytest

from kohort.kube import clock
from kohort.testing import virtual_time
from kohort.testing.virtual_time import EPOCH, Stuck, VirtualTimeLoop


async def test_a_long_sleep_costs_no_real_time() -> None:
    used = time.process_time()
    loop = asyncio.get_running_loop()
    before = loop.time()
    await asyncio.sleep(7 * 24 * 3600)
    assert loop.time() - before == pytest.approx(7 * 24 * 3600)
    assert time.process_time() - used < 5


async def test_time_stamps_follow_the_virtual_clock() -> None:
    await asyncio.sleep(90)
    assert clock.timestamp() == "2026-01-01T00:01:30Z"
    assert clock.micro_timestamp() == "2026-01-01T00:01:30.000000Z"
    assert clock.seconds() == EPOCH + 90


async def test_timers_fire_in_the_order_of_their_times() -> None:
    fired: list[float] = []

    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds)
        fired.append(seconds)

    delays = [0.3, 0.1, 5.0, 0.2, 86400.5, 0.1001]
    await asyncio.gather(*map(wait, delays))
    assert fired == sorted(delays)


async def test_timeouts_fire_without_waiting() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()


async def test_the_clock_stands_still_while_a_thread_works() -> None:
    loop = asyncio.get_running_loop()
    timer = asyncio.create_task(asyncio.sleep(10))
    before = loop.time()
    await asyncio.to_thread(time.sleep, 0.05)
    assert loop.time() == before
    assert not timer.done()
    await timer


async def test_bytes_on_a_socket_arrive_before_a_distant_timer() -> None:
    one, other = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=one)
    echo_reader, echo_writer = await asyncio.open_connection(sock=other)
    async with asyncio.timeout(3600):
        writer.write(b"there\n")
        echo_writer.write((await echo_reader.readline()).upper())
        assert await reader.readline() == b"THERE\n"
    writer.close()
    echo_writer.close()


async def test_a_child_process_is_awaited_in_real_time() -> None:
    process = await asyncio.create_subprocess_exec("/bin/sh", "-c", "echo out; exit 3", stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert (output, process.returncode) == (b"out\n", 3)


def test_waiting_for_what_cannot_happen_is_an_error_that_names_the_place() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    async def story() -> None:
        await asyncio.create_task(wait(), name="hopeless")

    with pytest.raises(Stuck, match=rf"hopeless at .*test_virtual_time\.py:{wait.__code__.co_firstlineno + 1}"):
        virtual_time.run(story())


def test_a_thread_that_waited_for_a_process_of_an_earlier_loop_keeps_nobody_waiting() -> None:
    """Such a thread ends a moment after the process, and wakes only the loop that started it."""
    earlier = threading.Thread(target=time.sleep, args=(0.2,), name="asyncio-waitpid-0")
    earlier.start()

    async def story() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        virtual_time.run(story())
    assert not earlier.is_alive()


def test_a_program_that_never_ends_is_stopped_after_thirty_days() -> None:
    async def story() -> None:
        for _ in range(31 * 24):
            await asyncio.sleep(3600)

    with pytest.raises(Stuck, match="still running after 30 virtual days"):
        virtual_time.run(story())


def test_random_numbers_repeat_and_the_outer_sequence_is_untouched() -> None:
    async def draw() -> list[float]:
        return [random.random() for _ in range(3)]

    random.seed(99)
    expected = random.random()
    random.seed(99)
    assert virtual_time.run(draw()) == virtual_time.run(draw())
    assert virtual_time.run(draw(), seed=1) != virtual_time.run(draw(), seed=2)
    assert random.random() == expected


async def test_a_server_and_its_client_in_the_same_program_do_not_slow_the_clock_down() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            await asyncio.sleep(60)
            writer.write(line.upper())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    real = time.monotonic()
    start = asyncio.get_running_loop().time()
    for _ in range(100):
        writer.write(b"hello\n")
        async with asyncio.timeout(61):
            assert await reader.readline() == b"HELLO\n"
    assert asyncio.get_running_loop().time() - start == pytest.approx(6000)
    assert time.monotonic() - real < 10, "fifty times as fast would be two minutes"
    writer.close()
    server.close()
    await server.wait_closed()


def test_another_process_gets_time_to_answer() -> None:
    """The other end is a process of its own, slower than any jump."""
    program = "import socket,time; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True);"
    program += "c,_=s.accept(); time.sleep(0.2); c.sendall(b'late\\n')"

    async def story(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(60):
            line = await reader.readline()
        writer.close()
        return line

    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert virtual_time.run(story(int(process.stdout.readline()))) == b"late\n"


@pytest.mark.parametrize(("load", "factor"), [(0.0, 1.0), (0.9, 1.0), (2.5, 2.5), (90.0, 4.0)])
def test_the_slowdown_of_a_busy_machine(load: float, factor: float) -> None:
    assert virtual_time.slowdown(load * 8, 8) == factor


def test_another_process_gets_more_time_on_a_busy_machine() -> None:
    """Ten seconds while a process runs are one second on a quiet machine, and more on a busy one."""

    async def story() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "100")
        await asyncio.sleep(10)
        process.kill()
        await process.wait()

    begun = time.monotonic()
    processors = os.cpu_count() or 1
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(load=lambda: 3.0 * processors)) as runner:
        runner.run(story())
    assert time.monotonic() - begun > 2.9
