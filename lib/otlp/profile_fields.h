/* Field numbers of OTLP's profiles (profiles.proto and profiles_service.proto, v1development), by the names of those
 * files: for the agent, which writes them, and the centre, which reads them. */
#pragma once

enum { REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY };
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE_PROFILES };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILES };
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLES,
    PROFILE_TIME_UNIX_NANO,
    PROFILE_DURATION_NANO,
    PROFILE_PERIOD_TYPE,
    PROFILE_PERIOD,
    PROFILE_PROFILE_ID,
};
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT };
enum { SAMPLE_STACK = 1, SAMPLE_ATTRIBUTES, SAMPLE_LINK, SAMPLE_VALUES, SAMPLE_TIMESTAMPS };

/* The tables of ProfilesDictionary. */
enum otlp_table {
    OTLP_MAPPING = 1,
    OTLP_LOCATION,
    OTLP_FUNCTION,
    OTLP_LINK,
    OTLP_STRING,
    OTLP_ATTRIBUTE,
    OTLP_STACK,
};
#define OTLP_TABLES 7

enum { MAPPING_FILENAME = 4, MAPPING_ATTRIBUTES };
enum { STACK_LOCATIONS = 1 };
enum { LOCATION_MAPPING = 1, LOCATION_ADDRESS, LOCATION_LINES, LOCATION_ATTRIBUTES };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_NAME = 1, FUNCTION_SYSTEM_NAME, FUNCTION_FILENAME };
enum { ATTRIBUTE_KEY = 1, ATTRIBUTE_VALUE }; /* KeyValueAndUnit, whose key is a string index */
enum { LINK_TRACE_ID = 1, LINK_SPAN_ID };
