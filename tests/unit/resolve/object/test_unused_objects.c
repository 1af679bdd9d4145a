/* Files of programs that ran once are closed soon after. */
#include "objects_fixture.h"

static uint64_t open_files(const struct objects *objects)
{
    struct objects_stats stats;
    objects_stats(objects, &stats);
    return stats.open_files;
}

static void count_unused(uint64_t object_id, void *context)
{
    assert_int_equal(object_id, 1);
    ++*(unsigned *)context;
}

/* The last process to close a deleted file pays for freeing it. So a program that may be replaced after it has run is
 * not kept open; one that runs again is. */
static void test_program_that_ran_once_is_closed_soon(void **state)
{
    (void)state;
    skip_without_openat2();
    const uint64_t second_ns = 1000000000;
    for (int sightings = 1; sightings <= 2; sightings++)
        for (int stays_open = 0; stays_open < 2; stays_open++) {
            const bool closes = sightings == 1 && !stays_open;
            unsigned unused = 0;
            struct place place;
            make_place(&place);
            write_file(place.path, "x", 1);
            struct objects *objects = NULL;
            struct object *o = NULL;
            assert_int_equal(objects_new(3, &objects), 0);
            objects_on_unused(objects, count_unused, &unused);
            const struct object_sight sight = sight_of(place.path);
            for (int i = 0; i < sightings; i++) {
                assert_int_equal(objects_get(objects, &sight, &o), 0);
                objects_live(o, 1);
            }
            if (stays_open)
                objects_stay_open(o);
            objects_trim(objects, 100 * second_ns, 0);
            assert_int_equal(open_files(objects), 1); /* processes map it */
            for (int i = 0; i < sightings; i++)
                objects_live(o, -1);
            objects_trim(objects, 100 * second_ns + second_ns / 8, 0);
            assert_int_equal(open_files(objects), 1);
            objects_trim(objects, 101 * second_ns, 0);
            assert_int_equal(open_files(objects), !closes);
            assert_int_equal(unused, closes);
            int fd = object_open(o); /* it can still be read */
            assert_true(fd >= 0);
            close(fd);
            objects_trim(objects, 101 * second_ns + second_ns / 8, 0);
            assert_int_equal(open_files(objects), 1);
            objects_trim(objects, 102 * second_ns, 0);
            assert_int_equal(open_files(objects), !closes);
            fd = object_open(o);
            assert_true(fd >= 0);
            close(fd);
            for (int i = 0; i < sightings; i++)
                objects_release(o);
            const unsigned before = unused;
            objects_free(objects); /* its file is open and unused */
            assert_int_equal(unused, before);
            remove_place(&place);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_that_ran_once_is_closed_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
